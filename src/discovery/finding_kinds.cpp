// The list of findings. A new one is a row here, a row in docs/guide/doctor.md, and a case in tests/discovery/findings_test.cpp.
#include <algorithm>
#include <discovery/findings.hpp>

namespace peal::discovery {
namespace {

using enum Weight;

constexpr FindingKind kKinds[] = {
    {"pcie-narrow", wrong, "a PCIe link has fewer lanes than both of its ends can", "less host bandwidth",
     "reseat the card and its riser, and check the slot's lanes (bifurcation) in the BIOS",
     "/sys/bus/pci/devices/*/current_link_width and max_link_width, of the device and of the port above it; NVML"},
    {"pcie-slow", wrong, "a PCIe link runs at a lower speed than both of its ends can (a note for a GPU that may only be idle)",
     "less host bandwidth", "reseat the card and its riser, and set the slot's speed to auto in the BIOS",
     "/sys/bus/pci/devices/*/current_link_speed and max_link_speed, of the device and of the port above it; NVML"},
    {"pcie-slot", note, "a card could do more than the port that it is plugged into", "less host bandwidth than the card could have",
     "move it to a slot with more lanes or a higher speed, if the machine has one",
     "max_link_width and max_link_speed of the device and of the port above it"},
    {"pcie-corrected", wrong, "a PCIe device has counted errors that the link corrected",
     "each one is a packet that was sent again, so bandwidth is lost and latency jumps",
     "reseat the card, replace riser or cable, and see whether the count still grows", "/sys/bus/pci/devices/*/aer_dev_correctable"},
    {"pcie-uncorrected", wrong, "a PCIe device has counted errors that were not corrected",
     "a transfer failed or was lost, or the link was reset",
     "look into dmesg for AER, reseat the card, and replace it when the count grows",
     "/sys/bus/pci/devices/*/aer_dev_nonfatal and aer_dev_fatal"},
    {"acs-redirect", wrong, "access control services of a PCIe switch send peer-to-peer traffic below it up to the root complex",
     "GPUs and NICs under one switch share the way to the processor instead of talking directly",
     "turn ACS off in the BIOS, or on this port with setpci (not on a host that gives devices to virtual machines)",
     "/sys/bus/pci/devices/*/config: the ACS control register; needs root"},
    {"iommu-translates", note, "the IOMMU translates the addresses of GPUs", "peer-to-peer transfers may go up to the root complex",
     "boot with iommu=pt where no device is given to a virtual machine", "/sys/bus/pci/devices/*/iommu_group/type"},
    {"nvlink-down", wrong, "a GPU has fewer active NVLinks than another GPU of its kind", "less bandwidth between GPUs",
     "look into dmesg for Xid 74, see `nvidia-smi nvlink --status`, reset the GPU or reseat it and its bridge", "NVML: NvLinkState"},
    {"nvlink-errors", wrong, "an NVLink has counted errors", "each one is data that was sent again, or a link that was trained anew",
     "see `nvidia-smi nvlink -e`, reset the counters and look again; reseat or replace what still counts", "NVML: NvLinkErrorCounter"},
    {"nic-slow", wrong, "an Ethernet interface is slower than another of the same model", "what is spread over both waits for the slower",
     "check cable, transceiver and the switch's port", "/sys/class/net/*/speed, of adapters with the same PCI ids"},
    {"nic-half-duplex", wrong, "an Ethernet interface sends and receives in turn", "collectives, which do both at once, take twice as long",
     "set both ends of the cable to negotiate by themselves", "/sys/class/net/*/duplex"},
    {"nic-no-carrier", wrong, "an Ethernet interface is enabled and has no signal (a note where other models have one)",
     "no data can go this way", "check cable, transceiver and the switch's port, or disable the interface", "/sys/class/net/*/carrier"},
    {"nic-mtu", wrong, "Ethernet interfaces of the same model have different MTUs",
     "large packets are dropped or cut up where the ways meet", "give all of them the same MTU with `ip link set NAME mtu N`",
     "/sys/class/net/*/mtu"},
    {"nic-errors", wrong, "an Ethernet interface has counted damaged frames", "each one is lost and sent again by TCP, after a wait",
     "replace cable or transceiver, and see whether the count still grows",
     "/sys/class/net/*/statistics/rx_crc_errors, rx_frame_errors, tx_carrier_errors"},
    {"nic-starved", note, "a NIC's line is faster than its PCIe link", "the line rate cannot be reached",
     "move it to a slot with more lanes or a higher speed", "the rate of the NIC against its current_link_width and current_link_speed"},
    {"tcp-paced", note, "TCP's congestion control paces what it sends (bbr), and interfaces do not do that for it (no fq)",
     "each connection sends by timers of the kernel: over links without losses up to twice the time of long collectives between hosts "
     "(ranks of one machine are not affected)",
     "sysctl net.core.default_qdisc=fq before the interfaces come up, or sysctl net.ipv4.tcp_congestion_control=cubic where losses are "
     "rare",
     "/proc/sys/net/ipv4/tcp_congestion_control, /proc/sys/net/core/default_qdisc"},
    {"ib-down", wrong, "an InfiniBand port has no link", "no data can go this way",
     "check cable, transceiver and the switch's port; Polling means that nobody answers",
     "/sys/class/infiniband/*/ports/*/state and phys_state"},
    {"ib-waiting", wrong, "an InfiniBand port has a link and is not active", "no data can go this way",
     "start a subnet manager (opensm, or the one of a switch) on this fabric", "/sys/class/infiniband/*/ports/*/state and phys_state"},
    {"ib-disabled", note, "an InfiniBand port was disabled", "no data can go this way", "enable it with `ibportstate`, if it is wanted",
     "/sys/class/infiniband/*/ports/*/phys_state"},
    {"ib-slow", wrong, "an InfiniBand port has a lower rate than another of the same model",
     "what is spread over both waits for the slower", "check cable, transceiver and the switch's port",
     "/sys/class/infiniband/*/ports/*/rate"},
    {"ib-errors", wrong, "an InfiniBand or RoCE port has counted errors of the link",
     "each one is a packet that was damaged, lost or sent again",
     "clean or replace the cable, reset the counters with `perfquery -R` and see whether they still grow",
     "/sys/class/infiniband/*/ports/*/counters"},
    {"rdma-losses", wrong, "an RDMA port has counted packets that were lost or came out of order",
     "each one sends what followed it again, after a wait",
     "RoCE: make the network lossless (PFC) or its congestion control work (ECN), with the same classes at NICs and switches",
     "/sys/class/infiniband/*/ports/*/hw_counters"},
    {"numa-empty", wrong, "a NUMA domain with processors has no memory", "its cores fetch everything from another domain",
     "put memory modules into the channels of that socket", "/sys/devices/system/node/*/meminfo and cpulist"},
    {"numa-hidden", note, "several sockets show one NUMA domain", "memory cannot be placed near the cores that use it",
     "turn node interleaving off in the BIOS, or let the hypervisor show the domains",
     "/sys/devices/system/node and /sys/devices/system/cpu/*/topology/physical_package_id"},
    {"numa-unknown", note, "a GPU or NIC does not say which of several NUMA domains it is on", "ranks cannot be placed near it",
     "update the BIOS (its _PXM tables), or let the hypervisor pass it on", "/sys/bus/pci/devices/*/numa_node"},
    {"shared-memory", wrong, "the kernel refuses the memory that the ranks of a host share (a sealed memfd; /dev/shm is not used)",
     "ranks of this host cannot start",
     "allow memfd_create: vm.memfd_noexec below 2, no seccomp filter against it, room in the container's memory limit",
     "trying it on this host; /proc/sys/vm/memfd_noexec"},
    {"cross-memory", wrong, "a process may not read the memory of another one of its user",
     "large messages between ranks of this host are copied twice instead of once",
     "sysctl kernel.yama.ptrace_scope=0, or run the container with CAP_SYS_PTRACE and a seccomp profile that allows process_vm_readv",
     "trying it on this host; /proc/sys/kernel/yama/ptrace_scope with CapEff of /proc/self/status"},
    {"memory-policy", note, "the kernel refuses to prefer a NUMA domain for a rank's memory, and there are several",
     "memory lies where it is first touched, and what the kernel moves between domains later",
     "run the container with CAP_SYS_NICE, or with a seccomp profile that allows set_mempolicy", "trying it on this host"},
    {"locked-memory", note, "little memory may be locked and there is an RDMA adapter", "RDMA libraries cannot register large buffers",
     "ulimit -l unlimited, or `--ulimit memlock=-1` for a container", "/proc/self/limits: Max locked memory"},
    {"open-files", wrong, "fewer files may be open than the ranks of this host need", "the job ends at its start or when it grows",
     "raise it with `ulimit -n` before the start, or LimitNOFILE in the service", "/proc/self/limits: Max open files"},
    {"cpu-set", note, "this process may use fewer processors than there are", "ranks beyond that number share cores",
     "start it without taskset, or give the container or the Slurm step more processors",
     "/proc/self/status: Cpus_allowed_list; /sys/devices/system/cpu/online"},
    {"cpu-quota", wrong, "the control group grants less processor time than the cores that it shows",
     "ranks are stopped together until the next period when the time is used up",
     "give the container whole processors (a cpuset) instead of a quota, or as many ranks as the quota grants",
     "/sys/fs/cgroup: cpu.max, or cpu.cfs_quota_us"},
    {"few-cores", wrong, "more ranks were asked for than there are cores",
     "ranks take turns on a core, and each exchange waits for the turn", "start as many ranks as there are cores, or use more hosts",
     "--ranks; /proc/self/status; /sys/devices/system/cpu/*/topology"},
    {"slow-clocks", wrong, "the frequency governor keeps processors at their lowest clock",
     "copies and reductions run at a fraction of their speed", "cpupower frequency-set -g performance",
     "/sys/devices/system/cpu/*/cpufreq/scaling_governor and scaling_driver"},
    {"small-pages", note, "transparent huge pages are off",
     "large buffers lie in small pages, which the kernel looks up one by one when another rank reads them (up to a quarter of the time of "
     "long calls)",
     "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/enabled"},
    {"clock-source", wrong, "the clock is read from a slow device", "each look at the clock is a system call of a microsecond or so",
     "find out from dmesg why tsc was given up; boot with tsc=reliable where that is safe",
     "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
    {"small-message", wrong,
     "a collective is so small that one device would be done sooner than the job (asked with --collective and --bytes)",
     "the job waits for latency, and more ranks make it slower", "send fewer and larger messages (bucket them), or use fewer ranks",
     "the cost model: what `peal explain` predicts"},
};

}  // namespace

std::string_view name_of(Weight weight) noexcept { return weight == wrong ? "wrong" : "note"; }

std::span<const FindingKind> finding_kinds() { return kKinds; }

const FindingKind* find_kind(std::string_view id) {
  const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const FindingKind& kind) { return kind.id == id; });
  return found == std::end(kKinds) ? nullptr : found;
}

std::string row_of(const FindingKind& kind) {
  return fmt::format("| `{}` | {} | {} | {} | {} | {} |", kind.id, name_of(kind.weight), kind.what, kind.consequence, kind.mend,
                     kind.read_from);
}

}  // namespace peal::discovery
