#include <fmt/format.h>

#include <algorithm>
#include <base/names.hpp>
#include <charconv>
#include <cmath>
#include <sim/fault_words.hpp>

namespace peal::sim {
namespace {

/// The number that a text is, whole; fails quietly.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> factor_in(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::optional<double> over = number_in<double>(text.substr(0, slash));
  const std::optional<double> under = slash == std::string_view::npos ? 1.0 : number_in<double>(text.substr(slash + 1));
  if (!over || !under) return std::nullopt;
  const double factor = *over / *under;
  return std::isfinite(factor) && factor > 0 ? std::optional(factor) : std::nullopt;
}

std::optional<int> rank_in(std::string_view text) {
  const std::optional<int> rank = number_in<int>(text);
  return rank && *rank >= 0 ? rank : std::nullopt;
}

}  // namespace

Result<Nanoseconds> parse_time(std::string_view text) {
  const std::size_t unit = text.find_first_not_of("0123456789.");
  const std::string_view word = unit == std::string_view::npos ? std::string_view() : text.substr(unit);
  const double scale = word == "ns" ? 1 : word == "us" ? 1e3 : word == "ms" ? 1e6 : word == "s" ? 1e9 : 0;
  const std::optional<double> value = number_in<double>(text.substr(0, unit));
  if (scale == 0 || !value || !std::isfinite(*value * scale))
    return fail(ErrorCode::invalid_argument, "\"{}\" is no time; give a number and ns, us, ms or s, such as 40us", text);
  return Nanoseconds{*value * scale};
}

Result<SlowLink> parse_slow_link(std::string_view text) {
  // The name of a shared wire holds " = " too.
  const std::size_t equals = text.rfind('=');
  const std::optional<double> factor = equals == std::string_view::npos ? std::nullopt : factor_in(text.substr(equals + 1));
  if (!factor || equals == 0)
    return fail(ErrorCode::invalid_argument,
                "\"{}\" names no slow link; give its name and the share that is left, such as \"gpu0 > nvswitch0=0.5\" or \"...=17/18\"",
                text);
  return SlowLink{std::string(text.substr(0, equals)), *factor};
}

Result<Straggler> parse_straggler(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::optional<int> rank = rank_in(text.substr(0, equals));
  const std::string_view what = equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  if (rank) {
    if (const std::optional<double> factor = factor_in(what)) return Straggler{*rank, *factor, 0};
    if (const Result<Nanoseconds> delay = parse_time(what)) return Straggler{*rank, 1, delay->value};
  }
  return fail(ErrorCode::invalid_argument,
              "\"{}\" names no straggler; give RANK=FACTOR (3=1.5: it takes half as long again) or RANK=DELAY (3=100us)", text);
}

Result<Beside> parse_beside(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return fail(
        ErrorCode::invalid_argument,
        "\"{}\" names no call beside this one{}; give COLLECTIVE:SIZE, with :0-31 for a job of its own on these places, /K for groups of K "
        "neighbours, %K for ranks equal modulo K, @TIME for its start, such as all_reduce:64M:32-63%8@100us",
        text, why);
  };
  Beside beside;
  std::string_view rest = text;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    PEAL_ASSIGN(beside.start, parse_time(rest.substr(at + 1)));
    rest = rest.substr(0, at);
  }
  if (const std::size_t split = rest.find_first_of("/%"); split != std::string_view::npos) {
    const std::optional<int> number = number_in<int>(rest.substr(split + 1));
    if (!number || *number < 1) return refuse(": its groups have no number");
    (rest[split] == '/' ? beside.group_ranks : beside.stride) = *number;
    rest = rest.substr(0, split);
  }
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return refuse(": it has no size");
  PEAL_ASSIGN(beside.call.collective, parse_collective(rest.substr(0, colon)));
  std::string_view size = rest.substr(colon + 1);
  if (const std::size_t places = size.find(':'); places != std::string_view::npos) {
    PEAL_ASSIGN(beside.places, parse_places(size.substr(places + 1)));
    size = size.substr(0, places);
  }
  PEAL_ASSIGN(beside.call.bytes, parse_bytes(size));
  return beside;
}

Result<std::vector<int>> parse_places(std::string_view text) {
  constexpr std::size_t kMost = 1 << 20;
  std::vector<int> places;
  for (std::string_view rest = text; true;) {
    const std::size_t comma = rest.find(',');
    const std::string_view range = rest.substr(0, comma);
    const std::size_t dash = range.find('-');
    const std::optional<int> first = rank_in(range.substr(0, dash));
    const std::optional<int> last = dash == std::string_view::npos ? first : rank_in(range.substr(dash + 1));
    if (!first || !last || *last < *first || static_cast<std::size_t>(*last - *first) >= kMost - places.size())
      return fail(ErrorCode::invalid_argument, "\"{}\" names no places of a cluster; give ranges of numbers from 0 on, such as 0-31,40",
                  text);
    for (int place = *first; place <= *last; ++place) places.push_back(place);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  std::vector<int> sorted = places;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    return fail(ErrorCode::invalid_argument, "\"{}\" has place {} twice; a rank has one of its own", text, *twice);
  return places;
}

Result<MessageAsked> parse_message(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  const std::optional<int> from = rank_in(text.substr(0, first));
  const std::optional<int> to = rank_in(first == std::string_view::npos ? "" : text.substr(first + 1, second - first - 1));
  const std::optional<std::uint64_t> number =
      second == std::string_view::npos ? std::uint64_t{0} : number_in<std::uint64_t>(text.substr(second + 1));
  if (!from || !to || !number || *from == *to)
    return fail(ErrorCode::invalid_argument,
                "\"{}\" names no message; give FROM:TO, two ranks, or FROM:TO:N for one after N others, such as 3:4:17", text);
  return MessageAsked{*from, *to, *number};
}

Result<ComputeWords> parse_compute(std::string_view text) {
  constexpr int kMostParts = 10'000;
  ComputeWords words;
  const std::size_t slash = text.find('/');
  PEAL_ASSIGN(words.compute, parse_time(text.substr(0, slash)));
  const std::optional<int> parts = slash == std::string_view::npos ? 1 : number_in<int>(text.substr(slash + 1));
  if (!parts || *parts < 1 || *parts > kMostParts)
    return fail(ErrorCode::invalid_argument,
                "\"{}\" is not cut into parts that can be counted; give TIME/PARTS with 1 to {} parts, such as 20ms/8", text, kMostParts);
  words.parts = *parts;
  return words;
}

Result<RankFailure> parse_failure(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::optional<int> rank = rank_in(text.substr(0, at));
  if (!rank || at == std::string_view::npos)
    return fail(ErrorCode::invalid_argument, "\"{}\" names no failure; give RANK@TIME, such as 3@40us", text);
  PEAL_ASSIGN(const Nanoseconds time, parse_time(text.substr(at + 1)));
  return RankFailure{*rank, time.value};
}

}  // namespace peal::sim
