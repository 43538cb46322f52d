#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <set>
#include <topology/machine.hpp>
#include <topology/yaml_tree.hpp>
#include <training/prices.hpp>

namespace peal::training {

namespace {

using topology::YamlFields;

constexpr std::size_t kMostPrices = 10'000;
constexpr double kLeastValue = 1e-9;
constexpr double kMostValue = 1e12;

/// `of_one`: a price of this kind says of what it is. `unit` for messages.
struct KindWords {
  std::string_view name;
  bool is_of_one;
  std::string_view unit;
};
constexpr KindWords kPriceKinds[] = {{"node", true, "a machine's price"},
                                     {"gpu", true, "a GPU's price"},
                                     {"rent", true, "a GPU's rent for an hour"},
                                     {"switch-port", true, "a switch's price over its ports"},
                                     {"radix", true, "the ports of a switch"},
                                     {"cable", true, "a cable's price with both ends"},
                                     {"network", false, "the network's share of the machines' price"},
                                     {"power", true, "the kW of a machine or of a GPU"},
                                     {"electricity", false, "the price of a kWh"},
                                     {"pue", false, "what the site draws over what its machines draw"},
                                     {"life", false, "the years that a bought machine is used"}};
constexpr std::string_view kBases[] = {"list", "reported", "assumed"};

Result<PriceKind> read_price_kind(YamlFields& fields) {
  PEAL_ASSIGN(const std::string word, fields.text("what"));
  for (std::size_t i = 0; i < std::size(kPriceKinds); ++i)
    if (kPriceKinds[i].name == word) return static_cast<PriceKind>(i);
  std::vector<std::string_view> names;
  for (const KindWords& kind : kPriceKinds) names.push_back(kind.name);
  return fail(ErrorCode::corrupt, "{}: there is no price of a '{}'; write one of: {}", fields.where(), word, fmt::join(names, ", "));
}

Result<Price> read_price(YamlFields& fields) {
  Price price;
  PEAL_ASSIGN(price.what, read_price_kind(fields));
  PEAL_ASSIGN(price.of, fields.text("of", ""));
  PEAL_ASSIGN(price.value, fields.number("value", kLeastValue, kMostValue));
  PEAL_ASSIGN(const std::string day, fields.text("date"));
  PEAL_ASSIGN(const std::string basis, fields.text("basis"));
  PEAL_ASSIGN(price.source, fields.text("source"));
  auto parsed = parse_day(day);
  if (!parsed) return fail(ErrorCode::corrupt, "{}: {}", fields.where(), parsed.error().message);
  price.day = *parsed;
  const auto* const found = std::find(std::begin(kBases), std::end(kBases), basis);
  if (found == std::end(kBases))
    return fail(ErrorCode::corrupt, "{}: '{}' is no basis of a price; write one of: {}", fields.where(), basis, fmt::join(kBases, ", "));
  price.basis = static_cast<PriceBasis>(found - std::begin(kBases));
  const KindWords& words = kPriceKinds[static_cast<std::size_t>(price.what)];
  if (words.is_of_one == price.of.empty())
    return fail(ErrorCode::corrupt, "{}: {} {} `of:`", fields.where(), words.name, words.is_of_one ? "needs" : "takes no");
  if (price.source.empty()) return fail(ErrorCode::corrupt, "{}: a price needs a source; write who named it", fields.where());
  return price;
}

}  // namespace

std::string_view name_of(PriceKind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(kPriceKinds) ? kPriceKinds[number].name : std::string_view();
}

std::string_view name_of(PriceBasis basis) noexcept {
  const auto number = static_cast<std::size_t>(basis);
  return number < std::size(kBases) ? kBases[number] : std::string_view();
}

Result<Day> parse_day(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00";
  int parts[3] = {};
  const bool has_form = text.size() == kForm.size() && text[4] == '-' && text[7] == '-';
  const char* const digits[] = {text.data(), text.data() + 5, text.data() + 8};
  for (int i = 0; has_form && i < 3; ++i) {
    const char* const end = digits[i] + (i == 0 ? 4 : 2);
    const auto [stop, error] = std::from_chars(digits[i], end, parts[i]);
    if (error != std::errc{} || stop != end) parts[i] = -1;
  }
  const auto [year, month, day] = parts;
  const std::chrono::year_month_day parsed{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                           std::chrono::day{static_cast<unsigned>(day)}};
  if (!has_form || year < 1950 || year > 2999 || !parsed.ok())
    return fail(ErrorCode::invalid_argument, "\"{}\" is no day; write it as 2024-08-22", text);
  return Day{year * 10'000 + month * 100 + day};
}

std::string to_text(Day day) { return fmt::format("{:04}-{:02}-{:02}", day.number / 10'000, day.number / 100 % 100, day.number % 100); }

Day today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  return {(parts.tm_year + 1900) * 10'000 + (parts.tm_mon + 1) * 100 + parts.tm_mday};
}

const Price* Prices::find_exact(PriceKind what, std::string_view of) const {
  for (const Price& price : all)
    if (price.what == what && price.of == of) return &price;
  return nullptr;
}

const Price* Prices::find(PriceKind what, std::string_view name) const {
  const Price* best = nullptr;
  for (const Price& price : all)
    if (price.what == what && name.starts_with(price.of) && (best == nullptr || price.of.size() > best->of.size())) best = &price;
  return best;
}

std::string Prices::missing(PriceKind what, std::string_view of) const {
  const KindWords& words = kPriceKinds[static_cast<std::size_t>(what)];
  return fmt::format("{} does not say {}{}{}; add `- {{what: {}, {}value: ..., date: ..., basis: ..., source: ...}}` to it", file,
                     words.unit, of.empty() ? "" : ": ", of, words.name, of.empty() ? "" : fmt::format("of: {}, ", of));
}

Result<Prices> read_prices_text(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const topology::YamlNode root, topology::parse_yaml(text, name));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, name, "price file"));
  Prices prices;
  prices.file = name;
  PEAL_ASSIGN(prices.currency, top.text("currency"));
  std::set<std::pair<PriceKind, std::string>> seen;
  PEAL_TRY(topology::each_row(top, "prices", name, "price", [&](YamlFields& fields) -> Status {
    if (prices.all.size() == kMostPrices) return fail(ErrorCode::corrupt, "{}: more than {} prices", name, kMostPrices);
    PEAL_ASSIGN(Price price, read_price(fields));
    if (!seen.emplace(price.what, price.of).second)
      return fail(ErrorCode::corrupt, "{}: {} {} is there twice", fields.where(), name_of(price.what), price.of);
    prices.all.push_back(std::move(price));
    return {};
  }));
  PEAL_TRY(top.finish());
  return prices;
}

Result<Prices> load_prices(const std::string& path) {
  if (!path.empty()) {
    PEAL_ASSIGN(const std::string text, topology::read_small_file(path));
    return read_prices_text(text, path);
  }
  constexpr std::string_view kOurs = "data/prices/prices.yaml";
  PEAL_ASSIGN(const std::string text,
              topology::read_small_file((std::filesystem::path(topology::data_directory()) / "prices" / "prices.yaml").string()));
  return read_prices_text(text, std::string(kOurs));
}

}  // namespace peal::training
