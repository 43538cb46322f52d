// Prices, each with its day and its source: data/prices/prices.yaml, or a user's file of the same form.
//
//   currency: USD
//   prices:
//     - {what: node, of: dgx-a100, value: 199000, date: 2020-05-14, basis: list, source: "..."}
#pragma once

#include <base/result.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace peal::training {

enum class PriceKind : std::uint8_t {
  node,         ///< one machine
  gpu,          ///< one GPU alone
  rent,         ///< of a GPU for an hour
  switch_port,  ///< a switch's price over its ports
  radix,        ///< ports of such a switch
  cable,        ///< one, with what both ends plug into
  network,      ///< share of the machines' price, where the ports have no price
  power,        ///< kW of a machine, or of one GPU
  electricity,  ///< of a kWh
  pue,          ///< what a site draws over what its machines draw
  life,         ///< years that a bought machine is used
};
std::string_view name_of(PriceKind kind) noexcept;  ///< "switch-port"; empty past the last

enum class PriceBasis : std::uint8_t { list, reported, assumed };
std::string_view name_of(PriceBasis basis) noexcept;

/// A day, for comparing: 20240822.
struct Day {
  int number = 0;
  auto operator<=>(const Day&) const = default;
  Day two_years_before() const { return {number - 20'000}; }
};
Result<Day> parse_day(std::string_view text);  ///< "2024-08-22"
std::string to_text(Day day);
Day today();

struct Price {
  PriceKind what = PriceKind::node;
  std::string of;  ///< a machine, or the beginning of a GPU's or port's name; empty: there is only one
  double value = 0;
  Day day;
  PriceBasis basis = PriceBasis::assumed;
  std::string source;
};

/// A value.
struct Prices {
  std::string file;  ///< for messages
  std::string currency;
  std::vector<Price> all;

  /// Of the exact name; of names that begin so, the longest. Null where there is none.
  const Price* find_exact(PriceKind what, std::string_view of) const;
  const Price* find(PriceKind what, std::string_view name) const;
  /// Names what is missing and the line to add.
  std::string missing(PriceKind what, std::string_view of) const;
};

/// By content; takes any bytes, at most 10,000 prices. Errors name FILE:LINE.
Result<Prices> read_prices_text(std::string_view text, const std::string& name);
/// A file; empty: data/prices/prices.yaml.
Result<Prices> load_prices(const std::string& path = {});

}  // namespace peal::training
