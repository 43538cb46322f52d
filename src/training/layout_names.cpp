#include <training/layout.hpp>

namespace peal::training {

namespace {

constexpr std::string_view kDimensionNames[] = {"tp", "cp", "ep", "dp", "pp"};
constexpr std::string_view kPipelineNames[] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};
constexpr std::string_view kRecomputeNames[] = {"none", "selective", "full"};
constexpr std::string_view kPrecisionNames[] = {"fp32", "tf32", "fp16", "bf16", "fp8"};

template <class Enum, std::size_t N>
std::string_view name_at(const std::string_view (&names)[N], Enum value) noexcept {
  const auto number = static_cast<std::size_t>(value);
  return number < N ? names[number] : std::string_view();
}

template <class Enum, std::size_t N>
Result<Enum> parse(const std::string_view (&names)[N], std::string_view text, std::string_view what) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  return fail(ErrorCode::invalid_argument, "there is no {} \"{}\"; give one of: {}", what, text, fmt::join(names, ", "));
}

}  // namespace

std::string_view name_of(Dimension dimension) noexcept { return name_at(kDimensionNames, dimension); }
std::string_view name_of(PipelineKind kind) noexcept { return name_at(kPipelineNames, kind); }
std::string_view name_of(Recompute recompute) noexcept { return name_at(kRecomputeNames, recompute); }
std::string_view name_of(Precision precision) noexcept { return name_at(kPrecisionNames, precision); }
Result<PipelineKind> parse_pipeline(std::string_view text) { return parse<PipelineKind>(kPipelineNames, text, "pipeline"); }
Result<Recompute> parse_recompute(std::string_view text) { return parse<Recompute>(kRecomputeNames, text, "recomputation"); }
Result<Precision> parse_precision(std::string_view text) { return parse<Precision>(kPrecisionNames, text, "precision"); }

int bytes_of(Precision precision) noexcept { return precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2; }

}  // namespace peal::training
