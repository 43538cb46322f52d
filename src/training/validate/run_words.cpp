#include "run_words.hpp"

#include <base/text.hpp>

namespace peal::training {

namespace {

struct Word {
  std::string_view in;  ///< found in the cell
  std::string_view means;
};

/// The first that is found counts.
constexpr Word kSoftware[] = {{"megatron-deepspeed", "megatron-deepspeed"},
                              {"megatron-lm 2021", "megatron-2021"},
                              {"megatron-lm 2022", "megatron-2021"},
                              {"llm-foundry", "llm-foundry"},
                              {"internevo", "internevo"},
                              {"nemo", "nemo"},
                              {"megatron", "megatron-te"},
                              {"tensorflow", "dle-tensorflow"},
                              {"pytorch", "dle-pytorch"},
                              {"mxnet", "dle-mxnet"}};
constexpr Word kMachines[] = {{"dgx-2", "dgx-2"},       {"dgx-1", "dgx-1-v100"},  {"dgx a100", "dgx-a100"}, {"dgx-h100", "dgx-h100"},
                              {"dgx h100", "dgx-h100"}, {"dgx-b200", "dgx-b200"}, {"dgx b200", "dgx-b200"}, {"dgx-h200", "dgx-h200"}};
/// Eight of a kind with a NIC each, where a row names no machine.
constexpr Word kLike[] = {{"a100", "dgx-a100"}, {"h100", "dgx-h100"}, {"h200", "dgx-h200"}, {"b200", "dgx-b200"}, {"v100", "dgx-1-v100"}};

template <std::size_t N>
std::string_view first_of(const Word (&words)[N], std::string_view cell) {
  for (const Word& word : words)
    if (has_word(cell, word.in)) return word.means;
  return {};
}

}  // namespace

bool has_word(std::string_view text, std::string_view word) { return lower_case(text).find(word) != std::string::npos; }

std::string software_word(const PublishedRun& run) {
  if (!has_word(run.software, "torchtitan")) return std::string(first_of(kSoftware, run.software));
  // Its tables of two and more dimensions are all compiled; of the others the notes say so.
  const bool is_eager = !has_word(run.notes, "compile") && run.tp == 1 && run.pp == 1 && run.cp == 1;
  if (is_eager) return "torchtitan";
  std::string word = "torchtitan-compile";
  if (has_word(run.recompute, "per op") || has_word(run.recompute, "config default")) word += "-2025";
  if (has_word(run.precision, "rowwise")) word += "-rowwise";
  return word;
}

std::string processor_word(const PublishedRun& run) {
  const std::string gpu = lower_case(run.gpu);
  const auto has = [&](std::string_view word) { return gpu.find(word) != std::string::npos; };
  if (has("v100")) return has("sxm3") ? "V100-SXM3" : has("32gb") ? "V100-SXM2-32GB" : "V100-SXM2";
  if (has("a100")) return has("40gb") ? (has("pcie") ? "A100-PCIe-40GB" : "A100-SXM4-40GB") : has("pcie") ? "A100-PCIe-80GB" : "A100-SXM4";
  if (has("gh200")) return "GH200";
  if (has("h100")) return has("hbm2e") ? "H100-SXM5-HBM2e" : has("pcie") ? "H100-PCIe" : "H100-SXM5";
  if (has("h200")) return "H200-SXM5";
  return run.gpu.substr(0, run.gpu.find("-SXM"));
}

std::string machine_word(const PublishedRun& run, bool& is_named) {
  const std::string_view named = first_of(kMachines, run.hardware);
  is_named = !named.empty();
  return std::string(is_named ? named : first_of(kLike, run.gpu));
}

Result<Precision> precision_word(const PublishedRun& run) {
  constexpr Word kPrecisions[] = {{"fp8", "fp8"},   {"float8", "fp8"}, {"tf32", "tf32"},
                                  {"bf16", "bf16"}, {"fp16", "fp16"},  {"fp32", "fp32"}};
  if (run.precision.empty()) return Precision::fp16;
  const std::string_view word = first_of(kPrecisions, run.precision);
  if (word.empty()) return fail(ErrorCode::unsupported, "precision \"{}\" is none of fp32, tf32, fp16, bf16, fp8", run.precision);
  return parse_precision(word);
}

}  // namespace peal::training
