#include <algorithm>
#include <base/names.hpp>
#include <base/settings.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuning/measured.hpp>
#include <tuple>

namespace peal::tuning {

using nlohmann::json;

namespace {

constexpr const char* kSchema = "peal.tuning/3";
constexpr double kMostMicroseconds = 1e12;
constexpr double kMostNanoseconds = 1e12;
constexpr double kMostPower = 2;
constexpr double kFewestOfAll = 0.1;  // of all repeats: a distance that was met less often tells nothing

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
  point.exchange_ns = number_in(tree.at(3), 0, 1e9, "an exchange of flags");
  point.repeats = static_cast<int>(number_in(tree.at(4), 1, 1e9, "a number of repeats"));
  return point;
}

Result<MeasuredWay> way_of(const json& tree) {
  MeasuredWay way;
  PEAL_ASSIGN(way.collective, parse_collective(tree.at("collective").get<std::string>()));
  PEAL_ASSIGN(way.protocol, schedule::parse_protocol(tree.at("protocol").get<std::string>()));
  way.ranks = static_cast<int>(number_in(tree.at("ranks"), 1, 1 << 24, "a number of ranks"));
  way.scope = tree.at("scope").get<std::string>();
  way.algorithm = tree.at("algorithm").get<std::string>();
  PEAL_ASSIGN(way.cores, parse_core_distance(tree.at("cores").get<std::string>()));
  way.is_in_place = tree.value("in_place", false);  // older tables have none
  for (const json& t : tree.at("bytes_us_spread_exchange_repeats")) {
    way.points.push_back(point_of(t));
    if (way.points.size() > 1 && way.points[way.points.size() - 2].bytes >= way.points.back().bytes)
      throw std::out_of_range("sizes do not ascend");
  }
  if (way.points.empty()) throw std::out_of_range("a way without points");
  return way;
}

Result<MeasuredConstants> constants_of(const json& tree) {
  MeasuredConstants c;
  PEAL_ASSIGN(c.protocol, schedule::parse_protocol(tree.at("protocol").get<std::string>()));
  PEAL_ASSIGN(c.cores, parse_core_distance(tree.at("cores").get<std::string>()));
  c.scope = tree.at("scope").get<std::string>();
  c.ranks = static_cast<int>(number_in(tree.at("ranks"), 1, 1 << 24, "a number of ranks"));
  for (const auto& [key, into] :
       {std::pair{"launch_ns", &c.launch_ns}, {"meeting_ns", &c.meeting_ns}, {"hop_ns", &c.hop_ns}, {"op_ns", &c.op_ns}})
    *into = number_in(tree.at(key), 0, kMostNanoseconds, key);
  // Older tables have none of these.
  c.receive_ns = c.op_ns;
  for (const auto& [key, into] :
       {std::pair{"receive_ns", &c.receive_ns}, {"touch_ns", &c.touch_ns}, {"slot_ns", &c.slot_ns}, {"second_ns", &c.second_ns}})
    if (tree.contains(key)) *into = number_in(tree.at(key), 0, kMostNanoseconds, key);
  if (tree.contains("written_share")) c.written_share = number_in(tree.at("written_share"), 1e-6, 1e6, "written_share");
  if (tree.contains("exchange_power")) c.exchange_power = number_in(tree.at("exchange_power"), 0, kMostPower, "exchange_power");
  for (const json& t : tree.at("bytes_copy_reduce_and_among_all_GBps")) {
    const auto rate = [&](std::size_t i) { return number_in(t.at(i), 1e-6, 1e6, "a rate"); };
    c.rates.push_back({number_in(t.at(0), 1, 1e18, "a size"), rate(1), rate(2), rate(3), rate(4), rate(t.size() > 5 ? 5 : 1)});
    if (c.rates.size() > 1 && c.rates[c.rates.size() - 2].bytes >= c.rates.back().bytes)
      throw std::out_of_range("sizes of rates do not ascend");
  }
  if (c.rates.empty()) throw std::out_of_range("constants without rates");
  c.cells = static_cast<int>(number_in(tree.at("cells"), 0, 1e9, "a number of cells"));
  c.median_error = number_in(tree.at("median_error"), 0, 1e12, "an error");
  c.worst_error = number_in(tree.at("worst_error"), 0, 1e12, "an error");
  return c;
}

Result<MeasuredTable> read_measured(std::string_view text, const std::string& name) {
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
  const json& constants = tree.at("constants");
  if (constants.size() > kMostConstants) throw std::out_of_range(fmt::format("more than {} sets of constants", kMostConstants));
  for (const json& t : constants) {
    PEAL_ASSIGN(MeasuredConstants set, constants_of(t));
    table.constants.push_back(std::move(set));
  }
  return table;
}

}  // namespace

std::optional<double> MeasuredWay::time_us(std::uint64_t bytes, const Shape& shape) const {
  if (points.empty()) return std::nullopt;
  const auto size_of = [](std::uint64_t size) { return std::max(1.0, static_cast<double>(size)); };
  const MeasuredPoint& last = points.back();
  if (bytes >= last.bytes) return last.us * size_of(bytes) / size_of(last.bytes);
  const auto above = std::find_if(points.begin(), points.end(), [&](const MeasuredPoint& p) { return p.bytes > bytes; });
  const MeasuredPoint& high = *above;
  const MeasuredPoint& low = above == points.begin() ? high : *(above - 1);
  if (low.bytes == bytes) return low.us;
  const double share =
      &low == &high ? 0 : std::log(size_of(bytes) / size_of(low.bytes)) / std::log(size_of(high.bytes) / size_of(low.bytes));
  const auto between = [&](double from, double to) { return from * std::pow(to / from, share); };
  const auto here = shape(bytes), at_low = shape(low.bytes), at_high = &low == &high ? at_low : shape(high.bytes);
  if (!here || !at_low || !at_high) return between(low.us, high.us);
  return between(low.us / *at_low, high.us / *at_high) * *here;
}

namespace {

std::string line_of(const MeasuredWay& way) {
  std::string text = fmt::format(
      R"({{"collective": "{}", "ranks": {}, "scope": {}, "cores": "{}", "algorithm": {}, "protocol": "{}", {}"bytes_us_spread_exchange_repeats": [)",
      name_of(way.collective), way.ranks, json(way.scope).dump(), name_of(way.cores), json(way.algorithm).dump(),
      schedule::name_of(way.protocol), way.is_in_place ? "\"in_place\": true, " : "");
  const char* separator = "";
  for (const MeasuredPoint& p : way.points) {
    text += fmt::format("{}[{}, {:.4g}, {:.2g}, {:.3g}, {}]", separator, p.bytes, p.us, p.spread, p.exchange_ns, p.repeats);
    separator = ", ";
  }
  return text + "]}";
}

std::string line_of(const MeasuredConstants& c) {
  std::string text = fmt::format(
      R"({{"scope": {}, "ranks": {}, "cores": "{}", "protocol": "{}", "cells": {}, "median_error": {:.3g}, "worst_error": {:.3g}, )"
      R"("launch_ns": {:.4g}, "meeting_ns": {:.4g}, "hop_ns": {:.4g}, "op_ns": {:.4g}, "receive_ns": {:.4g}, "touch_ns": {:.4g}, "slot_ns": {:.4g}, "second_ns": {:.4g}, "written_share": {:.3g}, "exchange_power": {:.3g}, )"
      R"("bytes_copy_reduce_and_among_all_GBps": [)",
      json(c.scope).dump(), c.ranks, name_of(c.cores), schedule::name_of(c.protocol), c.cells, c.median_error, c.worst_error, c.launch_ns,
      c.meeting_ns, c.hop_ns, c.op_ns, c.receive_ns, c.touch_ns, c.slot_ns, c.second_ns, c.written_share, c.exchange_power);
  const char* separator = "";
  for (const MeasuredRate& r : c.rates) {
    text += fmt::format("{}[{:.0f}, {:.4g}, {:.4g}, {:.4g}, {:.4g}, {:.4g}]", separator, r.bytes, r.copy, r.reduce, r.copy_among_all,
                        r.reduce_among_all, r.copy_to_root);
    separator = ", ";
  }
  return text + "]}";
}

template <typename T>
std::string lines_of(const std::vector<T>& all) {
  std::string text;
  for (const T& one : all) text += fmt::format("{}\n  {}", text.empty() ? "" : ",", line_of(one));
  return text;
}

}  // namespace

std::string to_text(const MeasuredTable& table) {
  return fmt::format("{{\"schema\": \"{}\",\n \"host\": {},\n \"date\": {},\n \"ways\": [{}\n ],\n \"constants\": [{}\n ]}}\n", kSchema,
                     json(table.host).dump(), json(table.date).dump(), lines_of(table.ways), lines_of(table.constants));
}

std::vector<DistanceShare> distance_shares(const std::vector<MeasuredWay>& ways, int ranks, std::string_view scope) {
  double repeats[kCoreDistances] = {}, all = 0, counted = 0;
  for (const MeasuredWay& way : ways) {
    if (way.ranks != ranks || way.scope != scope) continue;
    for (const MeasuredPoint& p : way.points) repeats[static_cast<std::size_t>(way.cores)] += p.repeats;
  }
  for (const double r : repeats) all += r;
  std::vector<DistanceShare> shares;
  for (std::size_t d = 0; d < kCoreDistances; ++d) {
    if (repeats[d] <= kFewestOfAll * all) continue;
    shares.push_back({static_cast<CoreDistance>(d), repeats[d]});
    counted += repeats[d];
  }
  for (DistanceShare& s : shares) s.share /= counted;
  std::stable_sort(shares.begin(), shares.end(), [](const DistanceShare& a, const DistanceShare& b) { return a.share > b.share; });
  return shares;
}

std::vector<double> mean_over_distances(const std::vector<DistanceTimes>& ways, const std::vector<DistanceShare>& shares) {
  const auto place = [](const DistanceShare& s) { return static_cast<std::size_t>(s.cores); };
  DistanceTimes best = {};
  for (const DistanceTimes& times : ways)
    for (std::size_t d = 0; d < kCoreDistances; ++d)
      if (times[d] > 0) best[d] = best[d] > 0 ? std::min(best[d], times[d]) : times[d];
  std::vector<double> means;
  for (const DistanceTimes& times : ways) {
    const auto known = std::find_if(shares.begin(), shares.end(), [&](const DistanceShare& s) { return times[place(s)] > 0; });
    double sum = 0, weight = 0;
    for (const DistanceShare& s : shares) {
      if (known == shares.end() || best[place(s)] <= 0) continue;
      const double there = times[place(s)];
      sum += s.share * (there > 0 ? there : best[place(s)] * times[place(*known)] / best[place(*known)]);
      weight += s.share;
    }
    means.push_back(weight > 0 ? sum / weight : 0);
  }
  return means;
}

void merge(MeasuredTable& table, const std::vector<MeasuredWay>& ways) {
  for (const MeasuredWay& fresh : ways) {
    const auto known = std::find_if(table.ways.begin(), table.ways.end(), [&](const MeasuredWay& old) {
      return std::tie(old.collective, old.ranks, old.scope, old.algorithm, old.protocol, old.cores, old.is_in_place) ==
             std::tie(fresh.collective, fresh.ranks, fresh.scope, fresh.algorithm, fresh.protocol, fresh.cores, fresh.is_in_place);
    });
    if (known == table.ways.end()) {
      table.ways.push_back(fresh);
      continue;
    }
    std::map<std::uint64_t, MeasuredPoint> points;
    for (const MeasuredPoint& p : known->points) points[p.bytes] = p;
    for (const MeasuredPoint& p : fresh.points) points[p.bytes] = p;
    known->points.clear();
    for (const auto& [bytes, point] : points) known->points.push_back(point);
  }
}

Result<MeasuredTable> measured_table_from_text(std::string_view text, const std::string& name) {
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::corrupt, "the tuning table {} does not parse: {}; measure again with `peal tune`", name, what);
  };
  if (text.size() > kMostTableBytes) return bad("it is larger than any table");
  try {
    auto table = read_measured(text, name);
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
