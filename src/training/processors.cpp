// GPUs as computers, from data/constants/training/processors.yaml.
#include <algorithm>
#include <base/names.hpp>
#include <base/text.hpp>

#include "rates.hpp"

namespace peal::training {

namespace {

constexpr std::string_view kFamily = "processor.";
constexpr std::size_t kPrecisions = 5;

/// "processor.ampere.A100-SXM4-40GB": generation and name.
std::pair<std::string_view, std::string_view> words_of(std::string_view constant) {
  constant.remove_prefix(kFamily.size());
  const std::size_t dot = constant.find('.');
  if (dot == std::string_view::npos) return {"", constant};
  return {constant.substr(0, dot), constant.substr(dot + 1)};
}

/// Drivers say "NVIDIA H100 PCIe" of an H100-PCIe.
std::string plain(std::string_view name) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla ", "GeForce ", "AMD ", "Instinct "})
    if (name.starts_with(maker)) name.remove_prefix(maker.size());
  std::string text = lower_case(name);
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

Result<Processor> processor_from(const topology::LibraryConstant& c) {
  if (c.values.size() != kPrecisions + 2)
    return fail(ErrorCode::corrupt, "{} in data/constants/training needs seven values: five rates, GB/s and GB", c.name);
  const auto [generation, name] = words_of(c.name);
  Processor p;
  p.name = std::string(name);
  p.generation = std::string(generation);
  std::copy_n(c.values.begin(), kPrecisions, std::begin(p.tflops));
  p.memory_GBps = c.values[kPrecisions];
  p.memory_bytes = c.values[kPrecisions + 1] * 1e9;
  p.source = c.source;
  // Kernels of a GPU whose units nobody has counted are cut as on most others.
  constexpr int kUsualUnits = 108;
  p.units = topology::processors_of(p.name).value_or(kUsualUnits);
  return p;
}

}  // namespace

Result<Processor> processor_named(std::string_view name) {
  PEAL_ASSIGN(const topology::LibraryConstants* constants, training_constants());
  const topology::LibraryConstant* best = nullptr;
  std::vector<std::string_view> known;
  for (const topology::LibraryConstant& c : constants->all()) {
    if (!c.name.starts_with(kFamily)) continue;
    known.push_back(words_of(c.name).second);
    if (plain(name).starts_with(plain(known.back())) && (best == nullptr || known.back().size() > words_of(best->name).second.size()))
      best = &c;
  }
  if (best == nullptr) {
    const std::string_view near = nearest(name, known.data(), known.size());
    return fail(
        ErrorCode::unsupported,
        "nobody has written down how fast a \"{}\" computes{}; there are figures for {}, and data/constants/training/processors.yaml "
        "takes more",
        name, near.empty() ? std::string() : fmt::format(", did you mean \"{}\"?", near), fmt::join(known, ", "));
  }
  return processor_from(*best);
}

Result<Processor> processor_of(const topology::Cluster& cluster) {
  if (cluster.ranks() == 0 || cluster.device(cluster.device_of_rank(0)).kind != topology::DeviceKind::gpu)
    return fail(ErrorCode::unsupported, "the machine has no GPU to train on; give --machine dgx-h100, or another of `peal machines`");
  return processor_named(cluster.device(cluster.device_of_rank(0)).name);
}

Precision computed_in(const Processor& processor, Precision wanted) {
  const auto rate = [&](Precision p) { return processor.tflops[static_cast<std::size_t>(p)]; };
  Precision had = wanted;
  if (had == Precision::fp8 && rate(had) <= 0) had = Precision::bf16;
  if (had == Precision::bf16 && rate(had) <= 0) had = Precision::fp16;
  if (rate(had) <= 0) had = Precision::fp32;
  if (rate(had) > 0) return had;
  const double* const fastest = std::max_element(std::begin(processor.tflops), std::end(processor.tflops));
  return static_cast<Precision>(fastest - std::begin(processor.tflops));
}

}  // namespace peal::training
