// Tables of published training runs, and what becomes of their words.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <training/validate_training.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)peal::training::is_training_table(text);
  const auto runs = peal::training::read_training_text(text, "fuzz.csv");
  if (!runs) {
    if (runs.error().message.find("fuzz.csv") == std::string::npos) std::abort();
    return 0;
  }
  constexpr std::size_t kMost = 20;
  for (std::size_t i = 0; i < runs->size() && i < kMost; ++i) {
    const auto run = peal::training::run_of((*runs)[i]);
    if (!run && run.error().message.empty()) std::abort();
    if (run && (!(run->seconds > 0) || run->layout.gpus() != (*runs)[i].gpus || run->nodes < 1)) std::abort();
  }
  return 0;
}
