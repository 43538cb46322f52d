// PCIe links against what both of their ends can, errors that they count, peer-to-peer traffic that is sent around; NVLinks.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report.hpp"

namespace peal::discovery {
namespace {

constexpr double kIdleSpeed = 2.5;  // GT/s that GPUs go down to when nothing is asked of them

struct Card {
  std::string name;  // "GPU 3 (0000:17:00.0)"
  const PciPlace* place = nullptr;
  bool is_gpu = false;
  const vendor::NvmlGpu* said = nullptr;
};

std::string share_text(double now, double possible) {
  const double share = now / possible;
  for (const auto& [part, words] : {std::pair{2, "half"}, {4, "a quarter of"}, {8, "an eighth of"}, {16, "a sixteenth of"}})
    if (std::fabs(share * part - 1) < 0.03) return fmt::format("{} the host bandwidth", words);
  return fmt::format("{:.0f} % of the host bandwidth", 100 * share);
}

std::string bandwidth_text(const PciRate& now, const PciRate& possible, double share_now, double share_possible) {
  return fmt::format("{} ({:.3g} of {:.3g} GB/s each way)", share_text(share_now, share_possible), now.gigabytes(), possible.gigabytes());
}

class PciExamination {
 public:
  PciExamination(const Roots& roots, std::vector<Card> cards, Report& report)
      : is_virtual_(is_virtual_machine(roots)), cards_(std::move(cards)), report_(report) {}

  void run() {
    for (const Card& card : cards_) {
      look_at(card);
      for (std::size_t i = card.place->chain.size(); i-- > 0;) {
        const PciDevice& device = card.place->chain[i];
        if (!known_.insert(device.address).second) continue;  // a port that another card hangs below, too
        const bool is_card = i + 1 == card.place->chain.size();
        const std::string name = is_card ? card.name : fmt::format("PCIe port {} above {}", device.address, card.name);
        look_at_link(card, i, name, is_card && card.is_gpu);
        look_at_errors(device, name);
      }
    }
    look_at_redirection();
    look_at_translation();
    if (!cards_.empty()) report_.seen(fmt::format("PCIe links of GPUs and NICs: {} with a state in /sys, {} without", links_, silent_));
  }

 private:
  void look_at(const Card& card) {
    if (card.place->chain.empty() || card.place->chain.back().negotiated.is_known()) return;
    if (card.said != nullptr && card.said->pcie_width && card.said->most_pcie_width) return ask_library(card);
    ++silent_;
    report_.unknown(fmt::format("{}: no PCIe link state in /sys{}, so nobody can say whether it is narrower or slower than it could be",
                                card.name, is_virtual_ ? " (a virtual machine shows none)" : ""));
  }

  void ask_library(const Card& card) {
    const vendor::NvmlGpu& said = *card.said;
    ++links_;
    if (*said.pcie_width < *said.most_pcie_width)
      report_.add("pcie-narrow", card.name, fmt::format("PCIe x{} instead of x{}", *said.pcie_width, *said.most_pcie_width), "NVML",
                  {share_text(*said.pcie_width, *said.most_pcie_width)});
    const bool works = said.performance_state == 0u;
    if (said.pcie_generation && said.most_pcie_generation && *said.pcie_generation < *said.most_pcie_generation && works)
      report_.add("pcie-slow", card.name, fmt::format("PCIe {} instead of PCIe {}", *said.pcie_generation, *said.most_pcie_generation),
                  "NVML");
  }

  void look_at_link(const Card& card, std::size_t i, const std::string& name, bool is_gpu) {
    const std::vector<PciDevice>& chain = card.place->chain;
    const PciDevice& device = chain[i];
    // The way out of a switch is seen at its upper port and at what hangs below; its lower ports have no link of their own.
    if (i % 2 == 0 && i + 1 != chain.size()) return;
    const PciRate& now = device.negotiated;
    if (!now.is_known() || !device.capable.is_known()) return;
    ++links_;
    const PciDevice* const port = card.place->port_above(i);
    const bool is_port_known = port != nullptr && port->capable.is_known();
    PciRate possible = device.capable;
    if (is_port_known) possible = {std::min(possible.speed, port->capable.speed), std::min(possible.width, port->capable.width)};
    const std::string files = fmt::format("read from {}/current_link_* and max_link_*{}", device.folder,
                                          is_port_known ? fmt::format(", {}/max_link_*", port->folder) : std::string());
    const char* const doubt = is_port_known ? "" : " (what the slot can is not said)";
    const auto weight = !is_port_known && is_virtual_ ? std::optional(Weight::note) : std::nullopt;
    if (now.width < possible.width)
      report_.add("pcie-narrow", name, fmt::format("PCIe x{} instead of x{}{}", now.width, possible.width, doubt), files,
                  {bandwidth_text(now, possible, now.width, possible.width), {}, weight});
    if (now.speed < possible.speed) add_slow(card, name, is_gpu, now, possible, doubt, files, weight);
    const bool has_all = now.width >= possible.width && now.speed >= possible.speed;
    if (has_all && possible.gigabytes() < 0.99 * device.capable.gigabytes())
      report_.add("pcie-slot", name,
                  fmt::format("the port above it ends at x{} of {:g} GT/s, the card could do x{} of {:g}", possible.width, possible.speed,
                              device.capable.width, device.capable.speed),
                  files, {bandwidth_text(now, device.capable, now.gigabytes(), device.capable.gigabytes())});
  }

  void add_slow(const Card& card, const std::string& name, bool is_gpu, const PciRate& now, const PciRate& possible, const char* doubt,
                const std::string& files, std::optional<Weight> weight) {
    const bool works = card.said != nullptr && card.said->performance_state == 0u;
    const bool may_idle = is_gpu && now.speed <= kIdleSpeed && !works;
    std::string mend;
    if (may_idle) mend = "a GPU with nothing to do lowers its speed by itself, so look again while it works";
    report_.add("pcie-slow", name, fmt::format("PCIe at {:g} GT/s instead of {:g}{}", now.speed, possible.speed, doubt), files,
                {bandwidth_text(now, possible, PciRate{now.speed, 1}.gigabytes(), PciRate{possible.speed, 1}.gigabytes()), mend,
                 may_idle ? std::optional(Weight::note) : weight});
  }

  void look_at_errors(const PciDevice& device, const std::string& name) {
    // What a device notes by the way: no packet is sent again for it.
    const auto is_remark = [](const Counter& c) {
      for (const char* word : {"NonFatal", "Non-Fatal", "CorrInt", "Internal", "Header"})
        if (c.name.find(word) != std::string::npos) return true;
      return false;
    };
    if (!device.corrected.empty()) {
      Words words;
      if (std::all_of(device.corrected.begin(), device.corrected.end(), is_remark))
        words = {"the device reported it and went on", "nothing has to be done unless the count grows", Weight::note};
      report_.add("pcie-corrected", name, fmt::format("corrected PCIe errors since boot: {}", counters_text(device.corrected)),
                  fmt::format("read from {}/aer_dev_correctable", device.folder), std::move(words));
    }
    std::vector<Counter> worse = device.fatal;
    worse.insert(worse.end(), device.nonfatal.begin(), device.nonfatal.end());
    if (!worse.empty())
      report_.add("pcie-uncorrected", name, fmt::format("uncorrected PCIe errors since boot: {}", counters_text(worse)),
                  fmt::format("read from {}/aer_dev_{}", device.folder, device.fatal.empty() ? "nonfatal" : "fatal"));
  }

  /// Matters where two cards hang below one switch: else nothing goes from one to another there.
  void look_at_redirection() {
    struct Switch {
      std::set<std::string> cards, redirecting;
      std::string folder;
      bool is_readable = false;
    };
    std::map<std::string, Switch> switches;
    for (const Card& card : cards_) {
      const std::vector<PciDevice>& chain = card.place->chain;
      for (std::size_t i = 1; i + 2 < chain.size(); i += 2) {
        Switch& above = switches[chain[i].address];
        above.cards.insert(card.place->address);
        above.folder = chain[i + 1].folder;
        above.is_readable |= chain[i + 1].is_config_readable;
        if (chain[i + 1].redirects) above.redirecting.insert(chain[i + 1].address);
      }
    }
    for (const auto& [address, above] : switches) {
      if (above.cards.size() < 2) continue;
      if (!above.is_readable)
        report_.unknown(fmt::format("PCIe switch {}: whether it redirects peer-to-peer traffic (ACS) is for root to read", address));
      if (!above.redirecting.empty())
        report_.add("acs-redirect", fmt::format("PCIe switch {}", address),
                    fmt::format("its ports {} redirect peer-to-peer traffic", fmt::join(above.redirecting, " ")),
                    fmt::format("read from {}/config", above.folder));
    }
  }

  void look_at_translation() {
    std::vector<std::string> translated;
    std::string file;
    for (const Card& card : cards_) {
      if (!card.is_gpu || card.place->chain.empty()) continue;
      const std::string path = card.place->chain.back().folder + "/iommu_group/type";
      const std::string type = read_line(path).value_or("");
      if (!type.starts_with("DMA")) continue;
      translated.push_back(card.place->address);
      file = path;
    }
    if (!translated.empty())
      report_.add("iommu-translates", count_text(translated.size(), "GPU"),
                  fmt::format("the IOMMU translates the addresses of {}", fmt::join(translated, " ")), fmt::format("read from {}", file));
  }

  bool is_virtual_;
  std::vector<Card> cards_;
  Report& report_;
  std::set<std::string> known_;
  std::size_t links_ = 0, silent_ = 0;
};

const vendor::NvmlGpu* report_of(const std::vector<vendor::NvmlGpu>& reports, const std::string& address) {
  for (const vendor::NvmlGpu& r : reports)
    if (r.pci == address) return &r;
  return nullptr;
}

std::string gpu_name(const std::vector<GpuFact>& gpus, const vendor::NvmlGpu& report) {
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i].place.address == report.pci) return fmt::format("GPU {} ({})", i, report.pci);
  return fmt::format("GPU {}", report.pci);
}

}  // namespace

void examine_pci(const Roots& roots, const std::vector<GpuFact>& gpus, const std::vector<NicFact>& nics,
                 const std::vector<vendor::NvmlGpu>& reports, Report& report) {
  std::vector<Card> cards;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const PciPlace& place = gpus[i].place;
    cards.push_back({fmt::format("GPU {} ({})", i, place.address), &place, true, report_of(reports, place.address)});
  }
  for (const NicFact& nic : nics) {
    if (nic.place.address.empty()) continue;
    cards.push_back({fmt::format("NIC {} ({})", nic.name, nic.place.address), &nic.place});
    if (nic.gigabytes > 0 && nic.place.gigabytes > 0 && nic.gigabytes > nic.place.gigabytes)
      report.add("nic-starved", cards.back().name,
                 fmt::format("a line of {:.3g} GB/s on a PCIe link of {:.3g} GB/s each way", nic.gigabytes, nic.place.gigabytes),
                 fmt::format("{}; {}", nic.source, nic.place.source));
  }
  PciExamination(roots, std::move(cards), report).run();
}

void examine_nvlink(const std::vector<GpuFact>& gpus, const std::vector<vendor::NvmlGpu>& reports, Report& report) {
  std::map<std::string, std::size_t> most;  // active links, by kind of GPU
  const auto active = [](const vendor::NvmlGpu& gpu) {
    return static_cast<std::size_t>(std::count_if(gpu.links.begin(), gpu.links.end(), [](const auto& link) { return link.is_active; }));
  };
  for (const vendor::NvmlGpu& gpu : reports) most[gpu.name] = std::max(most[gpu.name], active(gpu));
  for (const vendor::NvmlGpu& gpu : reports) {
    const std::string name = gpu_name(gpus, gpu);
    const std::size_t up = active(gpu), best = most[gpu.name];
    if (up < best)
      report.add(
          "nvlink-down", name, fmt::format("{} of NVLink active, {} at another {}", count_text(up, "link"), best, gpu.name),
          "NVML: NvLinkState",
          {fmt::format("{:.0f} % of the other's bandwidth between GPUs", 100.0 * static_cast<double>(up) / static_cast<double>(best))});
    for (const vendor::NvLinkFact& link : gpu.links) {
      std::vector<Counter> errors;
      for (const auto& [word, count] : {std::pair{"replays", link.replays},
                                        {"recoveries", link.recoveries},
                                        {"CRC of flits", link.crc_flit},
                                        {"CRC of data", link.crc_data}})
        if (count.value_or(0) > 0) errors.push_back({word, *count});
      if (!errors.empty())
        report.add("nvlink-errors", fmt::format("{} link {}", name, link.link), fmt::format("NVLink errors: {}", counters_text(errors)),
                   "NVML: NvLinkErrorCounter");
    }
  }
  if (!reports.empty()) report.seen(fmt::format("NVML: {} with PCIe links and NVLinks", count_text(reports.size(), "GPU")));
  if (reports.empty() && !gpus.empty())
    report.unknown(fmt::format("NVLink: {} by PCI class, and no NVML to ask for links and their errors", count_text(gpus.size(), "GPU")));
}

}  // namespace peal::discovery
