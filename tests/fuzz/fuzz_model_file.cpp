// Models: YAML of the catalogue's kind and Hugging Face configurations.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <training/model_report.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto model = peal::training::read_model({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!model && model.error().message.empty()) std::abort();
  if (!model) return 0;
  if (peal::training::parameters(*model) < peal::training::active_parameters(*model)) std::abort();
  if (peal::training::model_text(*model).empty() || peal::training::training_flops(*model, 1024) < 0) std::abort();
  return 0;
}
