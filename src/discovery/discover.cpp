// A host as a tree: cores on the cache (or memory) that they share, caches on their NUMA domain, domains on sockets, and beside it
// PCIe down to NICs and GPUs, and one loopback that every core reaches.
#include <algorithm>
#include <base/percentile.hpp>
#include <discovery/discover.hpp>
#include <discovery/measure.hpp>
#include <map>
#include <topology/constants.hpp>

#include "attributes.hpp"
#include "cores.hpp"
#include "kernel.hpp"
#include "report.hpp"

namespace peal::discovery {
namespace {

using topology::Device;
using topology::DeviceKind;
using topology::Graph;
using topology::HostDefaults;
using topology::Link;
using topology::LinkKind;

constexpr double kUndisturbed = 0.8;  // of a processor
constexpr const char* kUnmeasured = "assumed: data/constants/host.yaml, not measured here";

class HostBuilder {
 public:
  HostBuilder(const Roots& roots, HostDefaults defaults, const HostMeasurements* measured, Detail detail)
      : roots_(roots),
        defaults_(std::move(defaults)),
        measured_(measured),
        detail_(detail),
        of_cores_("assumed: " + defaults_.source),
        of_loopback_(of_cores_),
        of_memory_(kUnmeasured) {}

  Result<Graph> build() {
    PEAL_ASSIGN(facts_, find_cores(roots_));
    if (measured_ != nullptr) take_measurements();
    graph_.rank_kind = DeviceKind::core;
    model_ = cpuinfo_value(roots_, "model name");
    if (model_.empty()) model_ = "processor";
    graph_.title = fmt::format("this host: {}, {} cores", model_, facts_.cores.size());
    PEAL_TRY(add_domains());
    PEAL_TRY(add_cores());
    PEAL_TRY(add_gpus());
    PEAL_TRY(add_nics());
    warn();
    return std::move(graph_);
  }

 private:
  /// Row of the measured exchanges that stands for a core, or -1.
  int row_of_core(std::size_t core) const {
    if (measured_ == nullptr) return -1;
    const std::vector<int> pus = parse_list(facts_.cores[core].pus);
    for (std::size_t row = 0; row < measured_->cpus.size(); ++row)
      if (std::binary_search(pus.begin(), pus.end(), measured_->cpus[row])) return static_cast<int>(row);
    return -1;
  }

  double exchange_between(std::size_t a, std::size_t b) const {
    const int row = row_of_core(a), column = row_of_core(b);
    if (row < 0 || column < 0) return 0;
    return measured_->exchange_ns[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
  }

  /// What was measured takes the place of what is assumed: the median of cores under one cache, and of cores in different packages.
  void take_measurements() {
    std::vector<double> near, far;
    for (std::size_t a = 0; a < facts_.cores.size(); ++a) {
      for (std::size_t b = a + 1; b < facts_.cores.size(); ++b) {
        const CoreFact &x = facts_.cores[a], &y = facts_.cores[b];
        const double ns = exchange_between(a, b);
        const auto package = [&](const CoreFact& c) { return facts_.domains[static_cast<std::size_t>(c.numa)].package; };
        if (ns > 0 && x.cache == y.cache) near.push_back(ns);
        if (ns > 0 && package(x) != package(y)) far.push_back(ns);
      }
    }
    if (!near.empty()) defaults_.near_exchange = {value_at(near, 0.5)};
    if (!far.empty()) defaults_.far_exchange = {value_at(far, 0.5)};
    defaults_.far_exchange = std::max(defaults_.far_exchange, defaults_.near_exchange);
    defaults_.core_copy = measured_->core_copy;
    defaults_.domain_memory = {measured_->all_copy.value / static_cast<double>(facts_.domains.size())};
    of_cores_ = near.empty() ? measured_->source + " (rate; latency assumed)" : measured_->source;
    of_memory_ = far.empty() ? measured_->source + " (rate; latency assumed)" : measured_->source;
    if (measured_->loopback && measured_->loopback_latency) {
      defaults_.loopback = *measured_->loopback;
      defaults_.loopback_latency = *measured_->loopback_latency;
      of_loopback_ = measured_->source + ", both ends polling as ranks do";
    }
  }

  std::string exchanges_of(std::size_t core) const {
    std::string text;
    for (std::size_t other = 0; other < facts_.cores.size(); ++other) {
      const double ns = other == core ? 0 : exchange_between(core, other);
      if (ns > 0) text += fmt::format("{}core{} {:.0f}", text.empty() ? "" : ", ", other, ns);
    }
    return text;
  }

  /// Latencies add up to the defaults: cores under one cache are `near_exchange` apart, cores of two sockets `far_exchange`;
  /// a quarter of the difference is charged at each cache's way out, half between the domains.
  Nanoseconds half_near() const { return 0.5 * defaults_.near_exchange; }
  Nanoseconds quarter_far() const { return {(defaults_.far_exchange.value - defaults_.near_exchange.value) / 4}; }

  Status join(int a, int b, LinkKind kind, Bandwidth rate, Nanoseconds latency, const std::string& source, int host_bridge = -1) {
    Link link{.a = a, .b = b, .kind = kind, .bandwidth = rate};
    link.latency = latency;
    link.source = source;
    link.host_bridge = host_bridge;
    PEAL_TRY(graph_.add_link(std::move(link)));
    return {};
  }

  Status add_domains() {
    std::map<int, std::vector<int>> by_package;
    const std::string processor = processor_of(roots_);
    for (const DomainFact& fact : facts_.domains) {
      Device device{
          .id = fmt::format("numa{}", fact.os_index), .kind = DeviceKind::cpu, .name = model_, .numa = fact.os_index, .source = "hwloc"};
      if (fact.memory_bytes > 0) device.attributes.push_back({"memory_bytes", std::to_string(fact.memory_bytes), "hwloc"});
      if (!processor.empty()) device.attributes.push_back({"processor", processor, fmt::format("read from {}/cpuinfo", roots_.proc)});
      if (detail_ == Detail::all) add_host_attributes(roots_, device.attributes);
      PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
      domains_.push_back(index);
      by_package[fact.package].push_back(index);
    }
    if (domains_.size() < 2) return {};
    // A socket with several domains has one way out that they share; a socket with one domain is that domain.
    std::vector<int> sockets;
    for (const auto& [package, members] : by_package) {
      if (members.size() == 1) {
        sockets.push_back(members.front());
        continue;
      }
      PEAL_ASSIGN(
          const int socket,
          graph_.add_device({.id = fmt::format("socket{}", package), .kind = DeviceKind::package, .name = model_, .source = "hwloc"}));
      sockets.push_back(socket);
      for (int domain : members) PEAL_TRY(join(domain, socket, LinkKind::sys, defaults_.domain_memory, {}, of_memory_));
    }
    for (std::size_t a = 0; a < sockets.size(); ++a)
      for (std::size_t b = a + 1; b < sockets.size(); ++b)
        PEAL_TRY(join(sockets[a], sockets[b], LinkKind::sys, defaults_.between_domains, 2 * quarter_far(), kUnmeasured));
    return {};
  }

  Status add_cores() {
    std::vector<int> caches;
    for (std::size_t i = 0; i < facts_.caches.size(); ++i) {
      const CacheFact& fact = facts_.caches[i];
      Device device{.id = fmt::format("{}{}", fact.is_cache ? "cache" : "memory", i),
                    .kind = DeviceKind::memory,
                    .name = fact.name,
                    .source = "hwloc"};
      device.numa = facts_.domains[static_cast<std::size_t>(fact.numa)].os_index;
      device.capacity = defaults_.domain_memory;
      device.attributes.push_back({"capacity_source", of_memory_, of_memory_});
      PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
      caches.push_back(index);
      PEAL_TRY(
          join(index, domains_[static_cast<std::size_t>(fact.numa)], LinkKind::memory, defaults_.domain_memory, quarter_far(), of_memory_));
    }
    PEAL_ASSIGN(const int loopback,
                graph_.add_device({.id = "lo", .kind = DeviceKind::loopback, .name = "loopback", .source = "every Linux host"}));
    for (std::size_t i = 0; i < facts_.cores.size(); ++i) {
      const CoreFact& fact = facts_.cores[i];
      Device device{.id = fmt::format("core{}", i), .kind = DeviceKind::core, .name = fmt::format("cpu {}", fact.pus), .source = "hwloc"};
      device.numa = facts_.domains[static_cast<std::size_t>(fact.numa)].os_index;
      device.attributes.push_back({"cpus", fact.pus, "hwloc"});
      if (const std::string all = exchanges_of(i); !all.empty()) device.attributes.push_back({"exchange_ns", all, measured_->source});
      PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
      PEAL_TRY(join(index, caches[static_cast<std::size_t>(fact.cache)], LinkKind::shm, defaults_.core_copy, half_near(), of_cores_));
      PEAL_TRY(join(index, loopback, LinkKind::loopback, defaults_.loopback, 0.5 * defaults_.loopback_latency, of_loopback_));
    }
    return {};
  }

  int domain_at(int numa) const {
    for (std::size_t i = 0; i < facts_.domains.size(); ++i)
      if (facts_.domains[i].os_index == numa) return domains_[i];
    return domains_.front();
  }

  /// Joins a PCI device to its NUMA domain through the switches above it.
  Status hang(int device, const PciPlace& place) {
    const int bridge = host_bridges_.emplace(place.root, static_cast<int>(host_bridges_.size())).first->second;
    // A virtual device has no PCIe link: its bytes are copied by a core of the hypervisor.
    const Bandwidth rate = place.gigabytes > 0 ? Bandwidth::gigabytes(place.gigabytes) : defaults_.core_copy;
    const std::string source =
        place.gigabytes > 0 ? place.source : "assumed: no PCIe link speed in /sys (virtual device), taken for one core's copy rate";
    const std::string place_source =
        place.chain.empty() ? std::string() : fmt::format("read from the path of {}", place.chain.back().folder);
    int below = device;
    for (auto it = place.switches.rbegin(); it != place.switches.rend(); ++it) {
      const std::string id = "pcie-" + *it;
      const int known = graph_.find(id);
      int above = known;
      if (known < 0) {
        PEAL_ASSIGN(above,
                    graph_.add_device(
                        {.id = id, .kind = DeviceKind::pcie_switch, .name = "PCIe switch", .numa = place.numa, .source = place_source}));
      }
      PEAL_TRY(join(below, above, LinkKind::pcie, rate, {}, source));
      below = above;
      if (known >= 0) return {};  // its way up is there already
    }
    return join(below, domain_at(place.numa), LinkKind::pcie, rate, {}, source, bridge);
  }

  Status add_gpus() {
    const std::vector<GpuFact> gpus = find_gpus(roots_, detail_);
    std::vector<vendor::NvmlGpu> reports;
    if (!gpus.empty() && detail_ == Detail::all) reports = ask_nvml(roots_);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      Device device{.id = fmt::format("gpu{}", i),
                    .kind = DeviceKind::gpu,
                    .name = gpus[i].name,
                    .numa = gpus[i].place.numa,
                    .source = fmt::format("read from {}/bus/pci/devices/*/class", roots_.sys)};
      add_pci_attributes(gpus[i].place, detail_, device.attributes);
      for (const vendor::NvmlGpu& report : reports) {
        if (report.pci != gpus[i].place.address) continue;
        if (!report.name.empty()) device.name = report.name;
        add_nvml_attributes(report, device.attributes);
      }
      PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
      PEAL_TRY(hang(index, gpus[i].place));
    }
    if (!gpus.empty() && detail_ == Detail::all)
      graph_.add_warning(fmt::format("{} found by PCI class; {}, and ranks are placed on cores", count_text(gpus.size(), "GPU"),
                                     reports.empty() ? "without NVML nobody says whether NVLinks join them"
                                                     : "their NVLinks stand in their attributes, not among the links"));
    return {};
  }

  Status add_nics() {
    int rail = 0;
    for (const NicFact& nic : find_nics(roots_, detail_)) {
      Device device{.id = nic.name,
                    .kind = DeviceKind::nic,
                    .name = nic.is_infiniband ? "InfiniBand" : "Ethernet",
                    .numa = nic.place.numa,
                    .source = fmt::format("read from {}", nic.folder)};
      add_pci_attributes(nic.place, detail_, device.attributes);
      if (detail_ == Detail::all) add_nic_attributes(nic, device.attributes);
      topology::Port port{.kind = nic.is_infiniband ? LinkKind::infiniband : LinkKind::ethernet};
      port.bandwidth = nic.gigabytes > 0 ? Bandwidth::gigabytes(nic.gigabytes) : defaults_.unknown_nic;
      port.source = nic.gigabytes > 0 ? nic.source : fmt::format("assumed: not {}, which does not say", nic.source);
      device.port = std::move(port);
      if (nic.is_up) device.rail = rail++;
      if (nic.is_up && nic.gigabytes <= 0) {
        graph_.add_warning(
            fmt::format("{}: the system does not say its speed ({}: -1 or unreadable, usual in virtual machines): {:g} GB/s assumed",
                        nic.name, nic.source, defaults_.unknown_nic.gigabytes()));
      }
      PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
      PEAL_TRY(hang(index, nic.place));
    }
    return {};
  }

  void warn() {
    if (measured_ != nullptr && measured_->processor_share < kUndisturbed)
      graph_.add_warning(
          fmt::format("others were at work while this host was measured: a thread got {:.0f} % of its core, so figures of the "
                      "loopback above all are too low; measure again on a quiet machine",
                      100 * measured_->processor_share));
    if (measured_ == nullptr)
      graph_.add_warning(fmt::format(
          "rates of memory and loopback are assumed, not measured on this host ({}); `peal topo --measure` measures", defaults_.source));
    if (is_virtual_machine(roots_)) {
      graph_.add_warning(
          fmt::format("this is a virtual machine: caches and NUMA domains are what the hypervisor shows; two vCPUs may be near ({:.3g} ns) "
                      "or far ({:.3g} ns), {}",
                      defaults_.near_exchange.value, defaults_.far_exchange.value,
                      measured_ == nullptr ? "near is assumed" : "and the hypervisor may move them at any time"));
    }
    const std::string sign = detail_ == Detail::all ? container_sign(roots_) : std::string();
    if (!sign.empty()) graph_.add_warning(fmt::format("this is a container ({}): limits of the host around it are not seen", sign));
    const double quota = cpu_quota(roots_).cpus;
    if (quota > 0 && quota < static_cast<double>(facts_.cores.size())) {
      graph_.add_warning(fmt::format("the control group grants {:g} CPUs' time for {} cores: ranks beyond that wait for each other", quota,
                                     facts_.cores.size()));
    }
  }

  const Roots& roots_;
  HostDefaults defaults_;
  const HostMeasurements* measured_;
  Detail detail_;
  std::string of_cores_, of_loopback_, of_memory_;  // sources
  std::string model_;
  CoreFacts facts_;
  Graph graph_;
  std::vector<int> domains_;
  std::map<std::string, int> host_bridges_;
};

}  // namespace

Result<Graph> discover_host(const Roots& roots, const HostMeasurements* measured, Detail detail) {
  PEAL_ASSIGN(HostDefaults defaults, topology::host_defaults());
  return HostBuilder(roots, std::move(defaults), measured, detail).build();
}

Result<std::string> host_fingerprint(const Roots& roots) {
  PEAL_ASSIGN(const CoreFacts facts, find_cores(roots));
  const std::string model = cpuinfo_value(roots, "model name");
  const std::string kernel = read_line(roots.proc + "/sys/kernel/osrelease").value_or("unknown");
  return fmt::format("{} | {} cores, {} cpus, {} packages, {} NUMA | {} | Linux {}{}", model.empty() ? "unknown processor" : model,
                     facts.cores.size(), facts.pus, facts.packages, facts.domains.size(),
                     facts.cache_text.empty() ? "caches unknown" : facts.cache_text, kernel, is_virtual_machine(roots) ? " | virtual" : "");
}

}  // namespace peal::discovery
