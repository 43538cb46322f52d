// Tables of measurements and the words in their cells.
#include <cstdint>
#include <cstdlib>
#include <sim/case_words.hpp>
#include <sim/link_figures.hpp>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)peal::sim::read_network_words(text.substr(0, 200), false);
  if (peal::sim::is_link_table(text)) {
    const auto figures = peal::sim::read_link_figures(text, "fuzz.csv");
    if (!figures && figures.error().message.empty()) std::abort();
    if (figures) (void)peal::sim::link_figures_json("fuzz.csv", *figures);
  }
  auto cases = peal::sim::read_published_text(text, "fuzz.csv");
  if (!cases) {
    if (cases.error().message.find("fuzz.csv") == std::string::npos) std::abort();
    return 0;
  }
  // The same text as a second table and as notes of the first.
  peal::sim::add_cases(*cases, *cases);
  const auto noted = peal::sim::add_notes_text(*cases, text, "fuzz.csv");
  if (!noted && noted.error().message.find("fuzz.csv") == std::string::npos) std::abort();
  for (const peal::sim::PublishedCase& c : *cases) {
    if (c.rows.empty()) std::abort();
    for (const auto& row : c.rows)
      if (!(row.time_us > 0) || row.bytes.value == 0) std::abort();
    const auto words = peal::sim::read_case_words(c);
    if (!words && words.error().message.empty()) std::abort();
    if (words && (words->copies < 0 || words->gpus < 0 || words->network.nics < 0 || !(words->network.gbps >= 0))) std::abort();
  }
  return 0;
}
