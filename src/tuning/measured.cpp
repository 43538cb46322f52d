#include <algorithm>
#include <base/names.hpp>
#include <base/settings.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuning/measured.hpp>

namespace peal::tuning {

using nlohmann::json;

namespace {

constexpr const char* kSchema = "peal.tuning/1";
constexpr double kMostMicroseconds = 1e12;

double number_in(const json& value, double low, double high, const char* what) {
  const double x = value.get<double>();
  if (!(x >= low && x <= high)) throw std::out_of_range(fmt::format("{} is {}, not from {} to {}", what, x, low, high));
  return x;
}

MeasuredPoint point_of(const json& tree) {
  MeasuredPoint point;
  point.bytes = static_cast<std::uint64_t>(number_in(tree.at(0), 0, 1e18, "a size"));
  point.us = number_in(tree.at(1), 1e-6, kMostMicroseconds, "a time");
  point.spread = number_in(tree.at(2), 0, kMostMicroseconds, "a spread");
  return point;
}

Result<MeasuredWay> way_of(const json& tree) {
  MeasuredWay way;
  PEAL_ASSIGN(way.collective, parse_collective(tree.at("collective").get<std::string>()));
  PEAL_ASSIGN(way.protocol, schedule::parse_protocol(tree.at("protocol").get<std::string>()));
  way.ranks = static_cast<int>(number_in(tree.at("ranks"), 1, 1 << 24, "a number of ranks"));
  way.scope = tree.at("scope").get<std::string>();
  way.algorithm = tree.at("algorithm").get<std::string>();
  for (const json& t : tree.at("bytes_us_spread")) {
    way.points.push_back(point_of(t));
    if (way.points.size() > 1 && way.points[way.points.size() - 2].bytes >= way.points.back().bytes)
      throw std::out_of_range("sizes do not ascend");
  }
  if (way.points.empty()) throw std::out_of_range("a way without points");
  return way;
}

Result<MeasuredTable> read(std::string_view text, const std::string& name) {
  const json tree = json::parse(text);
  if (tree.at("schema").get<std::string>() != kSchema)
    return fail(ErrorCode::corrupt, "{} is no tuning table of this version ({}): measure again with `peal tune`", name, kSchema);
  MeasuredTable table;
  table.host = tree.at("host").get<std::string>();
  table.date = tree.at("date").get<std::string>();
  const json& ways = tree.at("ways");
  if (ways.size() > kMostWays) throw std::out_of_range(fmt::format("more than {} ways", kMostWays));
  for (const json& t : ways) {
    PEAL_ASSIGN(MeasuredWay way, way_of(t));
    table.ways.push_back(std::move(way));
  }
  return table;
}

}  // namespace

std::optional<double> MeasuredWay::time_us(double bytes) const {
  if (points.empty()) return std::nullopt;
  const auto above =
      std::find_if(points.begin(), points.end(), [&](const MeasuredPoint& p) { return static_cast<double>(p.bytes) >= bytes; });
  if (above == points.end()) return points.back().us * bytes / std::max(1.0, static_cast<double>(points.back().bytes));
  if (above == points.begin() || static_cast<double>(above->bytes) == bytes) return above->us;
  const MeasuredPoint& below = *(above - 1);
  const double low = std::log(std::max(1.0, static_cast<double>(below.bytes)));
  const double high = std::log(std::max(2.0, static_cast<double>(above->bytes)));
  const double share = (std::log(std::max(1.0, bytes)) - low) / (high - low);
  return std::exp(std::log(below.us) + share * (std::log(above->us) - std::log(below.us)));
}

std::string to_text(const MeasuredTable& table) {
  std::string text = fmt::format("{{\"schema\": \"{}\",\n \"host\": {},\n \"date\": {},\n \"ways\": [", kSchema, json(table.host).dump(),
                                 json(table.date).dump());
  const char* separator = "\n";
  for (const MeasuredWay& way : table.ways) {
    text += fmt::format(
        "{}  {{\"collective\": \"{}\", \"ranks\": {}, \"scope\": {}, \"algorithm\": {}, \"protocol\": \"{}\", \"bytes_us_spread\": [",
        separator, name_of(way.collective), way.ranks, json(way.scope).dump(), json(way.algorithm).dump(), schedule::name_of(way.protocol));
    for (std::size_t i = 0; i < way.points.size(); ++i)
      text += fmt::format("{}[{}, {:.4g}, {:.2g}]", i == 0 ? "" : ", ", way.points[i].bytes, way.points[i].us, way.points[i].spread);
    text += "]}";
    separator = ",\n";
  }
  return text + "\n ]}\n";
}

Result<MeasuredTable> measured_table_from_text(std::string_view text, const std::string& name) {
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::corrupt, "the tuning table {} does not parse: {}; measure again with `peal tune`", name, what);
  };
  if (text.size() > kMostTableBytes) return bad("it is larger than any table");
  try {
    auto table = read(text, name);
    if (!table) return bad(table.error().message);
    return table;
  } catch (const std::exception& error) {  // nlohmann's, and what is out of range
    return bad(error.what());
  }
}

std::string measured_table_path() {
  const std::string asked = setting("PEAL_TUNING");
  if (asked == "off") return {};
  if (!asked.empty()) return asked;
  for (const auto& [name, below] : {std::pair{"XDG_CONFIG_HOME", ""}, {"HOME", "/.config"}})
    if (const std::string folder = setting(name); folder.starts_with('/')) return fmt::format("{}{}/peal/tuning.json", folder, below);
  return {};
}

Result<MeasuredTable> load_measured_table() {
  const std::string path = measured_table_path();
  if (path.empty()) return MeasuredTable{};
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (!has_setting("PEAL_TUNING")) return MeasuredTable{};
    return fail(ErrorCode::invalid_argument, "PEAL_TUNING names {}, which cannot be read: write it with `peal tune --out {}`, or unset it",
                path, path);
  }
  std::error_code error;
  if (const auto bytes = std::filesystem::file_size(path, error); error || bytes > kMostTableBytes)
    return fail(ErrorCode::corrupt, "{} is no tuning table: it is no file, or too large; measure again with `peal tune`", path);
  std::ostringstream text;
  text << file.rdbuf();
  return measured_table_from_text(text.str(), path);
}

}  // namespace peal::tuning
