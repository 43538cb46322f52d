#include "rates.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <topology/machine.hpp>

namespace peal::training {

namespace {

using topology::LibraryConstants;

Result<LibraryConstants> read_all() {
  const std::filesystem::path folder = std::filesystem::path(topology::data_directory()) / "constants" / "training";
  LibraryConstants all;
  for (const char* name : {"processors.yaml", "software.yaml", "kernels.yaml", "memory.yaml", "fitted.yaml"}) {
    const std::string path = (folder / name).string();
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail(ErrorCode::system, "{} cannot be read; set PEAL_DATA_DIR to Peal's data folder", path);
    std::ostringstream text;
    text << file.rdbuf();
    PEAL_TRY(all.add_text(text.str(), path));
  }
  return all;
}

Result<KernelFacts> read_kernels() {
  PEAL_ASSIGN(const LibraryConstants* constants, training_constants());
  KernelFacts f;
  for (const auto& [name, to] : {std::pair{"launches.forward", std::vector{&f.forward, &f.fused_forward}},
                                 {"launches.input", {&f.input, &f.fused_input}},
                                 {"launches.weight", {&f.weight}},
                                 {"launches.end", {&f.end}},
                                 {"launches.call", {&f.call}},
                                 {"launches.softmax", {&f.softmax}},
                                 {"launches.convolution", {&f.convolution}},
                                 {"softmax.row", {&f.softmax_row}},
                                 {"softmax.matrices", {&f.softmax_matrices}},
                                 {"masked", {&f.masked}},
                                 {"cut.pieces", {&f.most_pieces}},
                                 {"cut.least", {&f.least_piece}},
                                 {"cut.prologue", {&f.prologue}}}) {
    PEAL_ASSIGN(const int place, constants->find(name));
    const std::vector<double>& values = constants->all()[static_cast<std::size_t>(place)].values;
    if (values.size() != to.size()) return fail(ErrorCode::corrupt, "{} in data/constants/training needs {} values", name, to.size());
    for (std::size_t i = 0; i < to.size(); ++i) *to[i] = values[i];
  }
  for (const topology::LibraryConstant& c : constants->all()) {
    if (!c.name.starts_with("tile.")) continue;
    if (c.values.size() != 3 || c.values[0] < 1 || c.values[1] < 1)
      return fail(ErrorCode::corrupt, "{} in data/constants/training needs rows, columns and a share", c.name);
    f.tiles.push_back({c.values[0], c.values[1], c.values[2]});
  }
  if (f.tiles.empty()) return fail(ErrorCode::corrupt, "data/constants/training has no tile. constants");
  return f;
}

std::string_view word_of(AttentionKind kind) {
  constexpr std::string_view kWords[] = {"", "triton", "flash", "cudnn"};
  return kWords[static_cast<std::size_t>(kind)];
}

int place_of(const LibraryConstants& constants, const std::string& name) {
  const auto place = constants.find(name);
  return place ? *place : -1;
}

/// Nobody has run every library on every generation: the nearest that somebody has.
int attention_place(const LibraryConstants& constants, const Processor& processor, AttentionKind kind) {
  const std::string family = "attention." + processor.generation + ".";
  for (const std::string_view word : {word_of(kind), word_of(AttentionKind::cudnn), word_of(AttentionKind::flash)})
    if (const std::string name = family + std::string(word); constants.has(name)) return place_of(constants, name);
  return place_of(constants, "attention.other." + std::string(word_of(kind)));
}

Result<Software> software_from(const topology::LibraryConstant& c, const std::string& name) {
  const std::vector<double>& v = c.values;
  if (v.size() != 10)
    return fail(ErrorCode::corrupt,
                "{} in data/constants/training needs ten values: attention, width, selection, gates, loss, casts, bucket, bucket a rank, "
                "gradient, overlap",
                c.name);
  const auto number = [&](std::size_t i, int most) { return std::clamp(static_cast<int>(v[i]), 0, most); };
  return Software{name,
                  static_cast<AttentionKind>(number(0, 3)),
                  v[1],
                  static_cast<Selection>(number(2, 2)),
                  number(3, 1) == 0,
                  number(4, 1) == 0,
                  number(5, 1) == 1,
                  v[6],
                  v[7],
                  v[8],
                  number(9, 1) == 1};
}

/// Software without constants of its own (torchtitan-compile-rowwise) has those of the longest name that it begins with.
std::string stem_of(const LibraryConstants& constants, std::string name) {
  while (!constants.has("launch." + name)) {
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos) break;
    name.resize(dash);
  }
  return name;
}

}  // namespace

Result<const LibraryConstants*> training_constants() {
  static const Result<LibraryConstants> all = read_all();
  if (!all) return pass_on(all.error());
  return &*all;
}

Result<const KernelFacts*> kernel_facts() {
  static const Result<KernelFacts> facts = read_kernels();
  if (!facts) return pass_on(facts.error());
  return &*facts;
}

Result<double> training_constant(std::string_view name) {
  PEAL_ASSIGN(const LibraryConstants* constants, training_constants());
  PEAL_ASSIGN(const int place, constants->find(name));
  return constants->value(place);
}

Result<HeldBytes> held_bytes() {
  static const Result<HeldBytes> held = []() -> Result<HeldBytes> {
    HeldBytes h;
    PEAL_ASSIGN(h.context, training_constant("held.context"));
    PEAL_ASSIGN(h.fragments, training_constant("held.fragments"));
    PEAL_ASSIGN(h.logits, training_constant("held.logits"));
    PEAL_ASSIGN(h.plain_logits, training_constant("held.logits.plain"));
    return h;
  }();
  return held;
}

Result<Software> software_of(std::string_view name, const Layout& layout) {
  constexpr std::string_view kFamily = "software.";
  PEAL_ASSIGN(const LibraryConstants* constants, training_constants());
  const std::string wanted(!name.empty() ? name : layout.zero >= 3 ? "present-fsdp" : "present");
  std::vector<std::string_view> known;
  for (const topology::LibraryConstant& c : constants->all()) {
    if (!c.name.starts_with(kFamily)) continue;
    known.push_back(std::string_view(c.name).substr(kFamily.size()));
    if (known.back() == wanted) return software_from(c, wanted);
  }
  return fail(ErrorCode::invalid_argument, "nothing is known of a generation of software \"{}\"; give one of: {}", wanted,
              fmt::join(known, ", "));
}

Result<RateKeys> keys_of(const LibraryConstants& constants, const Processor& processor, const Software& software, const Layout& layout) {
  const std::string own = stem_of(constants, software.name);
  const Precision precision = layout.precision;
  RateKeys keys;
  keys.gpus = layout.gpus();
  PEAL_ASSIGN(keys.product, constants.find("product." + processor.generation));
  PEAL_ASSIGN(keys.memory, constants.find("memory." + processor.generation));
  if (precision == Precision::fp32) keys.precision = place_of(constants, "product.fp32");
  if (precision == Precision::tf32) keys.precision = place_of(constants, "product.tf32");
  if (precision == Precision::fp8) {
    keys.low = place_of(constants, "product.fp8");
    keys.cast = place_of(constants, software.casts_by_row ? "cast.rowwise" : "cast");
  }
  if (software.is_fused()) {
    keys.forward = attention_place(constants, processor, software.attention);
    keys.backward = place_of(constants, "attention.backward");
  }
  for (const auto& [key, name] : {std::pair{&keys.inner_half, std::string("inner_half")},
                                  {&keys.gap, "gap"},
                                  {&keys.software, "library." + own},
                                  {&keys.launch, "launch." + own},
                                  {&keys.elementwise, "elementwise." + own},
                                  {&keys.weights, "weights." + own},
                                  {&keys.step, "step." + own},
                                  {&keys.logits, "logits"},
                                  {&keys.optimizer, "optimizer"},
                                  {&keys.hidden, "hidden"},
                                  {&keys.convolution, "convolution"},
                                  {&keys.convolution_elementwise, "convolution.elementwise"},
                                  {&keys.variation, "variation"}}) {
    PEAL_ASSIGN(*key, constants.find(name));
  }
  return keys;
}

std::vector<int> places_of(const RateKeys& k) {
  std::vector<int> places;
  for (const int place : {k.product,
                          k.software,
                          k.precision,
                          k.low,
                          k.cast,
                          k.memory,
                          k.forward,
                          k.backward,
                          k.inner_half,
                          k.gap,
                          k.launch,
                          k.elementwise,
                          k.weights,
                          k.step,
                          k.logits,
                          k.optimizer,
                          k.hidden,
                          k.convolution,
                          k.convolution_elementwise,
                          k.variation})
    if (place >= 0) places.push_back(place);
  return places;
}

Rates rates_of(const LibraryConstants& constants, const RateKeys& keys) {
  const auto value = [&](int place) { return place >= 0 ? constants.value(place) : 1.0; };
  Rates r;
  r.product = value(keys.product) * value(keys.software) * value(keys.precision);
  r.low_product = value(keys.product) * value(keys.software) * value(keys.low);
  r.cast_bytes = value(keys.cast);
  r.memory = value(keys.memory);
  r.forward = value(keys.forward);
  r.backward = value(keys.forward) * value(keys.backward);
  r.inner_half = value(keys.inner_half);
  r.gap_us = value(keys.gap);
  r.launch_us = value(keys.launch);
  r.elementwise = value(keys.elementwise);
  r.weights_bytes = value(keys.weights);
  r.step_us = value(keys.step);
  r.logits_bytes = value(keys.logits);
  r.optimizer_bytes = value(keys.optimizer);
  r.hidden = value(keys.hidden);
  r.convolution = value(keys.convolution);
  r.convolution_elementwise = value(keys.convolution_elementwise);
  // A step waits for the slowest of all its devices: of n that vary by a standard deviation, the largest lies at most sqrt(2 ln n) of
  // them above the mean (the bound for the maximum of n normal variables).
  r.slowest = 1 + value(keys.variation) * std::sqrt(2 * std::log(keys.gpus));
  return r;
}

}  // namespace peal::training
