// nvidia-smi nvlink --status
//
//   GPU 0: NVIDIA H100 PCIe (UUID: GPU-...)
//        Link 0: 26.562 GB/s
//        Link 4: <inactive>
//
// It says how many links a GPU has and how fast they are, not where they end. Links are drawn where there is one way only: two GPUs
// with the same number of links are joined by them. Elsewhere the GPUs carry the figures as attributes.
#include <charconv>
#include <map>
#include <topology/import.hpp>

#include "import_rates.hpp"
#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr int kMostGpus = 1024;
constexpr int kMostSmiLinks = 64;

struct SmiGpu {
  int number = 0;
  int line = 0;
  std::string name;
  std::map<int, double> links;  ///< GB/s that the driver reports, by link; 0 inactive
  bool has_error = false;       ///< a line says that nothing could be read

  int active() const {
    int count = 0;
    for (const auto& [link, rate] : links) count += rate > 0 ? 1 : 0;
    return count;
  }
};

/// "GPU 0: NVIDIA H100 PCIe (UUID: ...)".
std::optional<SmiGpu> read_gpu(std::string_view text, int line) {
  if (!text.starts_with("GPU ")) return std::nullopt;
  const auto colon = text.find(':');
  const auto number = whole_number(trim(text.substr(4, colon == std::string_view::npos ? colon : colon - 4)), 65535);
  if (!number || colon == std::string_view::npos) return std::nullopt;
  SmiGpu gpu;
  gpu.number = *number;
  gpu.line = line;
  gpu.name = short_name(trim(text.substr(colon + 1, text.find("(UUID") - colon - 1)));
  return gpu;
}

/// "Link 3: 25.781 GB/s", "Link 3: <inactive>", "Link 3: 25 GB/s".
void read_link(std::string_view text, int line, SmiGpu& gpu, Remarks& remarks) {
  const auto colon = text.find(':');
  const auto link = whole_number(trim(text.substr(5, colon == std::string_view::npos ? colon : colon - 5)), kMostSmiLinks - 1);
  if (!link || colon == std::string_view::npos) {
    remarks.add(line, "no link of a GPU: \"Link 3: 25.781 GB/s\" is expected");
    return;
  }
  const std::string_view value = trim(text.substr(colon + 1));
  double rate = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), rate);
  const std::string_view unit = trim(value.substr(static_cast<std::size_t>(end - value.data())));
  const bool is_rate = error == std::errc{} && rate > 0 && rate < 1e6 && unit.starts_with("GB/s");
  if (!is_rate && !lower_case(value).starts_with("<inactive>")) {
    remarks.add(line, "link {} of GPU {} has no rate that can be read: it counts as inactive", *link, gpu.number);
  }
  if (!gpu.links.emplace(*link, is_rate ? rate : 0).second)
    remarks.add(line, "link {} of GPU {} comes twice: the first counts", *link, gpu.number);
}

std::vector<SmiGpu> read_gpus(std::string_view text, Remarks& remarks) {
  std::vector<SmiGpu> gpus;
  LineReader lines(text);
  bool is_known = false;
  for (TextLine line; lines.next(line);) {
    const std::string_view words = trim(without_comment_mark(line.text));
    if (std::optional<SmiGpu> gpu = read_gpu(words, line.number)) {
      is_known = true;
      for (const SmiGpu& other : gpus) is_known = is_known && other.number != gpu->number;
      if (!is_known) remarks.add(line.number, "GPU {} comes twice: the first counts", gpu->number);
      if (gpus.size() >= kMostGpus) is_known = false;
      if (is_known) gpus.push_back(std::move(*gpu));
    } else if (words.starts_with("Link ") && is_known) {
      read_link(words, line.number, gpus.back(), remarks);
    } else if (words.starts_with("NVML:") && is_known) {
      gpus.back().has_error = true;
    } else if (words.find("snip") != std::string_view::npos || words.starts_with("...")) {
      remarks.add(line.number, "something was cut out here");
    }
  }
  return gpus;
}

/// What the driver reports, as the specification's rate where that is known. Links of one GPU share a rate in all known machines.
WireFigures rate_of(const SmiGpu& gpu, const ImportRates& rates, const std::string& source, Remarks& remarks) {
  double reported = 0;
  for (const auto& [link, rate] : gpu.links) {
    if (rate > 0 && reported > 0 && rate != reported)
      remarks.add(gpu.line, "GPU {} has links of {} and of {} GB/s: all are taken for the slower", gpu.number, reported, rate);
    if (rate > 0) reported = reported > 0 ? std::min(reported, rate) : rate;
  }
  if (const WireFigures* known = rates.of_driver(reported)) return *known;
  if (reported > 0)
    remarks.add(gpu.line, "GPU {}: {} GB/s a link is none of the rates that drivers are known to report: it is taken as it is", gpu.number,
                reported);
  const Bandwidth rate = Bandwidth::gigabytes(reported);
  return {rate, rate, source, source};
}

void note_gaps(const std::vector<SmiGpu>& gpus, Remarks& remarks) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const int expected = i == 0 ? 0 : gpus[i - 1].number + 1;
    if (gpus[i].number > expected)
      remarks.add(gpus[i].line, "GPU {} comes here: what lies between {} and it is not in the file", gpus[i].number, expected);
  }
}

}  // namespace

Result<Graph> import_smi_nvlink(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  PEAL_ASSIGN(const ImportRates* rates, ImportRates::load());
  Graph graph;
  Remarks remarks(graph, name);
  const std::vector<SmiGpu> gpus = read_gpus(text, remarks);
  if (gpus.empty())
    return fail(ErrorCode::corrupt, "{}:1: no output of nvidia-smi nvlink --status: lines such as \"GPU 0: NVIDIA H100\" are needed", name);
  note_gaps(gpus, remarks);
  const std::string source = fmt::format("nvidia-smi nvlink --status in {}", name);
  std::vector<WireFigures> of_gpu;
  for (const SmiGpu& gpu : gpus) {
    of_gpu.push_back(rate_of(gpu, *rates, source, remarks));
    Device device;
    device.id = fmt::format("gpu{}", gpu.number);
    device.kind = DeviceKind::gpu;
    device.name = gpu.name;
    device.source = source;
    device.attributes.push_back({"nvlinks_active", std::to_string(gpu.active()), source});
    if (!gpu.links.empty())
      device.attributes.push_back({"nvlinks_inactive", std::to_string(static_cast<int>(gpu.links.size()) - gpu.active()), source});
    if (gpu.active() > 0)
      device.attributes.push_back({"nvlink_GBps", fmt::format("{:.6g}", of_gpu.back().line.gigabytes()), of_gpu.back().source});
    if (gpu.links.empty())
      remarks.add(gpu.line, "GPU {} has no links{}", gpu.number,
                  gpu.has_error ? ": the driver says that all are inactive" : " in this file");
    PEAL_TRY(graph.add_device(std::move(device)));
  }
  const bool is_pair =
      gpus.size() == 2 && gpus[0].number == 0 && gpus[1].number == 1 && gpus[0].active() == gpus[1].active() && gpus[0].active() > 0;
  int active = 0;
  for (const SmiGpu& gpu : gpus) active += gpu.active();
  if (is_pair) {
    Link link = of_gpu[0].link(0, 1, LinkKind::nvlink, gpus[0].active());
    link.source = fmt::format("{}; assumed: all links of two GPUs join them", link.source);
    PEAL_TRY(graph.add_link(std::move(link)));
  } else if (active > 0) {
    remarks.add(gpus.front().line,
                "the file does not say where the {} active links end, so none is drawn; nvidia-smi topo -m shows the pairs", active);
  }
  remarks.finish();
  graph.title = fmt::format("{} GPUs by nvidia-smi nvlink --status", gpus.size());
  return graph;
}

}  // namespace peal::topology
