#include <fmt/format.h>
#include <array>
#include <base/mix_bits.hpp>
#include <parallel/text_source.hpp>
#include <string_view>

namespace peal::parallel {

namespace {

constexpr std::string_view kSymbols = "abcdefghijklmnopqrstuvwxyz0123456789 .+=";
static_assert(kSymbols.size() == kTextSymbols);
constexpr std::array<std::string_view, 8> kAdjectives = {"red", "old", "small", "loud", "green", "quick", "tired", "clever"};
constexpr std::array<std::string_view, 8> kThings = {"fox", "bell", "ship", "king", "river", "clock", "miner", "teacher"};
constexpr std::array<std::string_view, 8> kDeeds = {"sees", "rings", "follows", "greets", "hears", "paints", "carries", "leaves"};

std::string sentence(std::uint64_t& state) {
  const auto one_of = [&state](const auto& words) { return words[next_mixed(state) % words.size()]; };
  if (next_mixed(state) % 3 == 0) {
    const std::uint64_t a = next_mixed(state) % 10, b = next_mixed(state) % 10;
    return fmt::format("{}+{}={}. ", a, b, a + b);
  }
  const std::string_view kind = one_of(kAdjectives), who = one_of(kThings), deed = one_of(kDeeds), whom = one_of(kThings);
  return fmt::format("the {} {} {} the {}. ", kind, who, deed, whom);
}

}  // namespace

std::vector<int> text_sample(std::uint64_t seed, std::int64_t number, std::int64_t length) {
  std::uint64_t state = mix_bits(mix_bits(seed) + static_cast<std::uint64_t>(number));
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < length) text += sentence(state);
  std::vector<int> symbols;
  for (std::int64_t i = 0; i < length; ++i) symbols.push_back(static_cast<int>(kSymbols.find(text[static_cast<std::size_t>(i)])));
  return symbols;
}

}  // namespace peal::parallel
