// What the kernel grants: memory that ranks share and read, limits, processors, clocks, pages, NUMA domains.
#include <algorithm>
#include <cstdlib>

#include "report.hpp"

namespace peal::discovery {
namespace {

// Of every rank a pidfd, a link of the star and a connection (counted in runs of 2 to 16 ranks: 2 a rank in shared memory, 3 over TCP), and
// what else a process has open, with the 64 connections that the hub may have half open.
constexpr double kFilesPerRank = 3;
constexpr double kOtherFiles = 128;
constexpr double kLittleLocked = 1 << 30;
constexpr unsigned long long kMayTrace = 1ull << 19;  // CAP_SYS_PTRACE

/// Where the probes did not run, what the files allow to say.
void look_at_shared_memory(const Roots& roots, const Probes& probes, Report& report) {
  const std::string file = roots.proc + "/sys/vm/memfd_noexec";
  if (probes.shared_memory.value_or(0) != 0)
    return report.add("shared-memory", "shared memory",
                      fmt::format("the kernel refuses a sealed memfd: {}", errno_text(*probes.shared_memory)),
                      "measured: a trial on this host");
  if (!probes.shared_memory && read_number(file).value_or(0) >= 2)
    return report.add("shared-memory", "shared memory", "vm.memfd_noexec is 2: the kernel refuses a memfd that does not give up execution",
                      fmt::format("read from {}", file));
  report.seen(probes.shared_memory ? "shared memory: a sealed memfd was made and mapped (measured: a trial on this host)"
                                   : "shared memory: not tried on a recorded host");
}

void look_at_cross_memory(const Roots& roots, const Probes& probes, Report& report) {
  const std::string file = roots.proc + "/sys/kernel/yama/ptrace_scope";
  const int scope = static_cast<int>(read_number(file).value_or(0));
  const unsigned long long rights = std::strtoull(status_field(roots, "CapEff").c_str(), nullptr, 16);
  if (probes.cross_memory.value_or(0) != 0) {
    const std::string why = scope > 0 ? fmt::format(" (kernel.yama.ptrace_scope is {})", scope) : std::string();
    return report.add("cross-memory", "ranks of this host",
                      fmt::format("the kernel refuses process_vm_readv: {}{}", errno_text(*probes.cross_memory), why),
                      "measured: a trial on this host");
  }
  if (!probes.cross_memory && (scope >= 3 || (scope >= 1 && (rights & kMayTrace) == 0)))
    return report.add("cross-memory", "ranks of this host", fmt::format("kernel.yama.ptrace_scope is {}", scope),
                      fmt::format("read from {}", file));
  if (!probes.cross_memory && !status_field(roots, "Seccomp").empty() && status_field(roots, "Seccomp") != "0")
    report.unknown("cross-memory reads: a seccomp filter is at work (/proc/self/status), and only a trial would tell what it refuses");
  if (probes.cross_memory) report.seen("cross-memory reads: a process read another one of its user (measured: a trial on this host)");
}

void look_at_limits(const Roots& roots, int ranks, bool has_rdma, Report& report) {
  const std::string file = fmt::format("read from {}/self/limits", roots.proc);
  const auto files = soft_limit(roots, "Max open files");
  const double needed = kOtherFiles + kFilesPerRank * ranks;
  if (!files) report.unknown(fmt::format("limits: {}/self/limits cannot be read", roots.proc));
  if (files && *files < needed)
    report.add("open-files", "this process", fmt::format("may open {:g} files, and {} ranks need about {:g}", *files, ranks, needed), file,
               {{}, fmt::format("type `ulimit -n {:g}` before the start, or set LimitNOFILE in the service", needed), {}});
  const auto locked = soft_limit(roots, "Max locked memory");
  if (has_rdma && locked && *locked < kLittleLocked)
    report.add("locked-memory", "this process", fmt::format("may lock {:g} MiB of memory", *locked / (1 << 20)), file);
}

void look_at_domains(const std::vector<NumaFact>& domains, int packages, Report& report) {
  bool has_memory = false;
  for (const NumaFact& d : domains) has_memory |= d.memory_bytes.value_or(0) > 0;
  for (const NumaFact& d : domains)
    if (has_memory && !d.cpus.empty() && d.memory_bytes == 0ull)
      report.add("numa-empty", fmt::format("NUMA domain {}", d.index), fmt::format("processors {} and no memory", list_text(d.cpus)),
                 fmt::format("read from {}/meminfo", d.folder));
  if (packages > 1 && domains.size() == 1)
    report.add("numa-hidden", "this host", fmt::format("{} sockets in one NUMA domain", packages),
               fmt::format("read from {} and /sys/devices/system/cpu/*/topology/physical_package_id", domains.front().folder));
}

/// Where there is one domain nothing is lost.
void look_at_memory_policy(const std::vector<NumaFact>& domains, const Probes& probes, Report& report) {
  if (!probes.memory_policy || std::count_if(domains.begin(), domains.end(), [](const NumaFact& d) { return !d.cpus.empty(); }) < 2) return;
  if (*probes.memory_policy == 0) return report.seen("memory policy: a NUMA domain may be preferred (measured: a trial on this host)");
  report.add("memory-policy", "ranks of this host",
             fmt::format("the kernel refuses a memory policy: {}", errno_text(*probes.memory_policy)), "measured: a trial on this host");
}

void look_at_places(const std::vector<NumaFact>& domains, const std::vector<GpuFact>& gpus, const std::vector<NicFact>& nics,
                    Report& report) {
  if (std::count_if(domains.begin(), domains.end(), [](const NumaFact& d) { return !d.cpus.empty(); }) < 2) return;
  std::string lost, folder;
  const auto look = [&](const std::string& name, const PciPlace& place) {
    if (place.chain.empty() || place.numa >= 0) return;
    lost += (lost.empty() ? "" : " ") + name;
    folder = place.chain.back().folder;
  };
  for (std::size_t i = 0; i < gpus.size(); ++i) look(fmt::format("gpu{}", i), gpus[i].place);
  for (const NicFact& nic : nics) look(nic.name, nic.place);
  if (!lost.empty()) report.add("numa-unknown", lost, "no NUMA domain is said", fmt::format("read from {}/numa_node", folder));
}

void look_at_clocks(const Roots& roots, const CpuFacts& cpus, Report& report) {
  std::vector<int> slow;
  std::string driver, folder;
  int governed = 0;
  for (int cpu : cpus.online) {
    const std::string at = fmt::format("{}/devices/system/cpu/cpu{}/cpufreq", roots.sys, cpu);
    const std::string governor = read_line(at + "/scaling_governor").value_or("");
    governed += governor.empty() ? 0 : 1;
    if (governor != "powersave") continue;
    driver = read_line(at + "/scaling_driver").value_or("");
    // These choose the clock themselves: their "powersave" follows the load.
    if (driver == "intel_pstate" || driver == "amd-pstate-epp" || driver == "amd_pstate_epp") continue;
    slow.push_back(cpu);
    folder = at;
  }
  if (!slow.empty())
    report.add("slow-clocks", fmt::format("processors {}", list_text(slow)),
               fmt::format("frequency governor powersave{}", driver.empty() ? "" : fmt::format(" of {}", driver)),
               fmt::format("read from {}/scaling_governor", folder));
  if (governed == 0) report.unknown("clocks of the processors: no frequency governor is shown (usual in virtual machines)");

  const std::string file = roots.sys + "/devices/system/clocksource/clocksource0/current_clocksource";
  const std::string clock = read_line(file).value_or("");
  const bool is_slow = clock == "hpet" || clock == "acpi_pm" || clock == "jiffies" || clock == "refined-jiffies" || clock == "pit";
  if (is_slow) report.add("clock-source", "the clock", fmt::format("{} instead of tsc", clock), fmt::format("read from {}", file));
  if (!clock.empty() && !is_slow) report.seen(fmt::format("clock: {} (read from {})", clock, file));
}

}  // namespace

void examine_memory(const Roots& roots, const ExamineOptions& options, const std::vector<GpuFact>& gpus, const std::vector<NicFact>& nics,
                    Report& report) {
  const CpuFacts cpus = find_cpus(roots);
  const std::vector<NumaFact> domains = find_domains(roots);
  look_at_shared_memory(roots, options.probes, report);
  look_at_cross_memory(roots, options.probes, report);
  look_at_limits(roots, options.ranks > 0 ? options.ranks : std::max(1, cpus.cores), !find_rdma_ports(roots).empty(), report);
  look_at_domains(domains, cpus.packages, report);
  look_at_memory_policy(domains, options.probes, report);
  look_at_places(domains, gpus, nics, report);
  const std::string pages = roots.sys + "/kernel/mm/transparent_hugepage/enabled";
  if (use_of_huge_pages(roots) == "never")
    report.add("small-pages", "this host", "transparent huge pages: never", fmt::format("read from {}", pages));
  report.seen(fmt::format("memory: {}", count_text(domains.size(), "NUMA domain")));
}

void examine_processors(const Roots& roots, const ExamineOptions& options, Report& report) {
  const CpuFacts cpus = find_cpus(roots);
  if (cpus.online.empty()) report.unknown(fmt::format("processors: {}/devices/system/cpu/online cannot be read", roots.sys));
  if (cpus.allowed.size() < cpus.online.size())
    report.add("cpu-set", "this process",
               fmt::format("may use {} of {} processors ({})", cpus.allowed.size(), cpus.online.size(), list_text(cpus.allowed)),
               fmt::format("read from {}/self/status: Cpus_allowed_list", roots.proc));
  const CpuQuota quota = cpu_quota(roots);
  if (quota.cpus > 0 && quota.cpus < static_cast<double>(cpus.allowed.size())) {
    const std::string stopped = quota.throttled > 0 ? fmt::format("; it was stopped in {} periods", quota.throttled) : std::string();
    report.add("cpu-quota", "the control group",
               fmt::format("grants {:g} CPUs' time for {} processors{}", quota.cpus, cpus.allowed.size(), stopped),
               fmt::format("read from {}", quota.file));
  }
  if (options.ranks > cpus.cores && cpus.cores > 0)
    report.add("few-cores", fmt::format("{} ranks", options.ranks),
               fmt::format("more than the {} that this process may use", count_text(static_cast<std::size_t>(cpus.cores), "core")),
               fmt::format("read from {}/self/status and {}/devices/system/cpu/*/topology", roots.proc, roots.sys));
  look_at_clocks(roots, cpus, report);
  report.seen(
      fmt::format("processors: {} online, {} to be used", cpus.online.size(), count_text(static_cast<std::size_t>(cpus.cores), "core")));
  if (is_virtual_machine(roots))
    report.unknown(
        fmt::format("virtual machine (flag hypervisor in {}/cpuinfo): caches, NUMA domains, PCIe links and which cores are near "
                    "are what the hypervisor shows, not what there is",
                    roots.proc));
  if (const std::string sign = container_sign(roots); !sign.empty())
    report.unknown(fmt::format("container ({}): limits of the host around it are not seen from here", sign));
}

}  // namespace peal::discovery
