#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <topology/claims.hpp>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>
#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostClaims = 10'000;
constexpr std::string_view kVerdicts[] = {"right", "wrong", "depends", "unsupported"};

/// What a simulation can be asked for: a time, bus bandwidth, the share of the time that is computing.
struct SimulatedUnit {
  std::string_view name;
  double (*value)(const ClaimAnswer& answer);
};
constexpr SimulatedUnit kSimulatedUnits[] = {{"us", [](const ClaimAnswer& a) { return a.microseconds; }},
                                             {"ms", [](const ClaimAnswer& a) { return a.microseconds * 1e-3; }},
                                             {"s", [](const ClaimAnswer& a) { return a.microseconds * 1e-6; }},
                                             {"GB/s", [](const ClaimAnswer& a) { return a.busbw_GBps; }},
                                             {"%", [](const ClaimAnswer& a) { return 100 * a.computing; }}};

/// Of an answer; its further figures first.
Result<double> value_in(const ClaimAnswer& answer, std::string_view unit) {
  std::vector<std::string_view> known;
  for (const auto& [name, value] : answer.others) {
    if (name == unit) return value;
    known.push_back(name);
  }
  for (const SimulatedUnit& one : kSimulatedUnits) {
    if (one.name == unit) return one.value(answer);
    known.push_back(one.name);
  }
  return fail(ErrorCode::corrupt, "a simulation has no '{}': write one of: {}", unit, fmt::join(known, ", "));
}

Result<const LinkUse*> use_of(const LinkGeneration& link, std::string_view device) {
  // "H100, H200" stands for both.
  for (const LinkUse& use : link.uses)
    if ((", " + use.device + ", ").find(fmt::format(", {}, ", device)) != std::string::npos) return &use;
  std::vector<std::string_view> known;
  for (const LinkUse& use : link.uses) known.push_back(use.device);
  return fail(ErrorCode::corrupt, "{} has no device '{}'; it has {}", link.name, device, fmt::join(known, ", "));
}

Result<double> value_of_machine(const std::vector<std::string_view>& words) {
  PEAL_ASSIGN(const Graph machine, load_machine(words[0]));
  const int device = machine.find(words[1]);
  const auto kind = link_kind_of(words[2]);
  if (device < 0 || !kind)
    return fail(ErrorCode::corrupt, "{} has no device '{}' or there is no kind of link '{}'", words[0], words[1], words[2]);
  return machine.total_of(device, *kind).gigabytes();
}

Result<double> value_in_catalogue(std::string_view name) {
  const std::vector<std::string_view> words = words_of(name);
  if (words.empty() || words.size() > 3) return fail(ErrorCode::corrupt, "[{}] is no name; topology/claims.hpp lists the forms", name);
  PEAL_ASSIGN(const LinkCatalogue* catalogue, link_catalogue());
  for (const SwitchGeneration& s : catalogue->switches) {
    if (s.name != words[0] || words.size() != 2) continue;
    if (words[1] == "ports") return static_cast<double>(s.ports);
    if (words[1] == "both") return s.both.gigabytes();
  }
  if (words.size() == 3 && words[1] != "of" && words[1] != "links") return value_of_machine(words);
  PEAL_ASSIGN(const LinkGeneration* link, link_generation(words[0]));
  if (words.size() == 1) return link->bandwidth.gigabytes();
  if (words.size() == 2 && words[1] == "lane" && link->lane_gbps > 0) return link->lane_gbps;
  if (words.size() == 2 && words[1] == "lanes" && link->lanes > 0) return static_cast<double>(link->lanes);
  if (words.size() == 3) {
    PEAL_ASSIGN(const LinkUse* use, use_of(*link, words[2]));
    return words[1] == "links" ? use->links : use->links * link->bandwidth.gigabytes();
  }
  return fail(ErrorCode::corrupt, "[{}] is not known of {}; topology/claims.hpp lists the forms", name, words[0]);
}

Result<ClaimFigure> read_figure(YamlFields& line, const ClaimSources& sources) {
  ClaimFigure figure;
  PEAL_ASSIGN(figure.text, line.text("text"));
  PEAL_ASSIGN(figure.formula, line.text("formula"));
  PEAL_ASSIGN(figure.unit, line.text("unit", ""));
  auto value = evaluate(figure.formula, sources.value_of, figure.computed);
  if (!value) return fail(value.error().code, "{}: {}", line.where(), value.error().message);
  figure.value = *value;
  return figure;
}

Result<ClaimSimulation> read_simulation(YamlFields& line, const ClaimSources& sources) {
  ClaimSimulation simulation;
  PEAL_ASSIGN(simulation.text, line.text("text"));
  PEAL_ASSIGN(const std::string sim, line.text("sim", ""));
  PEAL_ASSIGN(const std::string cost, line.text("cost", ""));
  PEAL_ASSIGN(simulation.unit, line.text("unit"));
  if (sim.empty() == cost.empty()) return fail(ErrorCode::corrupt, "{}: a simulation needs `sim:` or `cost:`", line.where());
  simulation.command = sim.empty() ? "cost " + cost : "sim " + sim;
  if (sim.empty() && !sources.price) return fail(ErrorCode::corrupt, "{}: nobody answers `cost:` here", line.where());
  auto answer = sim.empty() ? sources.price(cost) : sources.simulate(sim);
  if (!answer) return fail(answer.error().code, "{}: {}", line.where(), answer.error().message);
  auto value = value_in(*answer, simulation.unit);
  if (!value) return fail(value.error().code, "{}: {}", line.where(), value.error().message);
  simulation.value = *value;
  simulation.evidence = answer->evidence;
  return simulation;
}

Result<ClaimEvidence> read_evidence(YamlFields& line, const ClaimSources&) {
  ClaimEvidence evidence;
  PEAL_ASSIGN(evidence.text, line.text("text"));
  PEAL_ASSIGN(evidence.source, line.text("source"));
  return evidence;
}

template <class Line, class Read>
Status read_lines(YamlFields& fields, std::string_view key, const std::string& file, const ClaimSources& sources, Read&& read,
                  std::vector<Line>& lines) {
  PEAL_ASSIGN(const YamlNode* list, fields.list(key));
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    PEAL_ASSIGN(YamlFields line, YamlFields::of(list->items[i], file, key));
    PEAL_ASSIGN(Line one, read(line, sources));
    PEAL_TRY(line.finish());
    lines.push_back(std::move(one));
  }
  return {};
}

Result<Claim> read_claim(const YamlNode& node, const std::string& file, const ClaimSources& sources) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "claim"));
  Claim claim;
  PEAL_ASSIGN(claim.id, fields.integer("id", 1, 1'000'000, 0));
  PEAL_ASSIGN(claim.claim, fields.text("claim"));
  PEAL_ASSIGN(const std::string verdict, fields.text("verdict"));
  PEAL_ASSIGN(claim.because, fields.text("because"));
  PEAL_TRY(read_lines(fields, "arithmetic", file, sources, read_figure, claim.arithmetic));
  PEAL_TRY(read_lines(fields, "simulated", file, sources, read_simulation, claim.simulated));
  PEAL_TRY(read_lines(fields, "measured", file, sources, read_evidence, claim.measured));
  PEAL_TRY(fields.finish());
  if (claim.id == 0) return fail(ErrorCode::corrupt, "{}: a claim needs an `id:`", fields.where());
  const auto* const found = std::find(std::begin(kVerdicts), std::end(kVerdicts), verdict);
  if (found == std::end(kVerdicts))
    return fail(ErrorCode::corrupt, "{}: '{}' is no verdict: write {}", fields.where(), verdict, fmt::join(kVerdicts, ", "));
  claim.verdict = static_cast<Verdict>(found - std::begin(kVerdicts));
  return claim;
}

}  // namespace

std::string_view name_of(Verdict verdict) noexcept { return kVerdicts[static_cast<std::size_t>(verdict)]; }

Result<std::vector<Claim>> read_claims_text(std::string_view text, const std::string& name, const ClaimSources& sources) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, name));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, name, "file of claims"));
  PEAL_ASSIGN(const YamlNode* list, top.list("claims"));
  PEAL_TRY(top.finish());
  std::vector<Claim> claims;
  std::set<int> seen;
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    if (i == kMostClaims) return fail(ErrorCode::corrupt, "{}: more than {} claims", name, kMostClaims);
    PEAL_ASSIGN(Claim claim, read_claim(list->items[i], name, sources));
    if (!seen.insert(claim.id).second)
      return fail(ErrorCode::corrupt, "{}:{}: claim {} is there twice", name, list->items[i].line, claim.id);
    claims.push_back(std::move(claim));
  }
  return claims;
}

Result<std::vector<Claim>> load_claims(std::function<Result<ClaimAnswer>(const std::string& sim)> simulate,
                                       std::function<Result<ClaimAnswer>(const std::string& cost)> price) {
  const std::string path = (std::filesystem::path(data_directory()) / "claims.yaml").string();
  PEAL_ASSIGN(const std::string text, read_small_file(path));
  return read_claims_text(text, path, {value_in_catalogue, std::move(simulate), std::move(price)});
}

std::string claims_page(const std::vector<Claim>& claims) {
  std::string out =
      "# What people claim\n\n"
      "Sentences with numbers from course notes, slides, blogs and articles about the interconnects of large-model training, the "
      "arithmetic of\n"
      "Peal's catalogue (data/links, data/machines), the simulator's answer with what it is worth, what was measured and where, and a "
      "verdict.\n"
      "Written by `peal claims` from `data/claims.yaml`; GB/s are 10^9 bytes a second, those of a simulation are bus bandwidth. Numbers "
      "are\n"
      "those of one list, so some are missing here.\n\n"
      "| # | claim | verdict |\n|---|---|---|\n";
  for (const Claim& c : claims) out += fmt::format("| [{}](#claim-{}) | {} | {} |\n", c.id, c.id, c.claim, name_of(c.verdict));
  for (const Claim& c : claims) {
    out += fmt::format("\n## Claim {}\n\n{}\n\n", c.id, c.claim);
    for (const ClaimFigure& f : c.arithmetic) {
      const std::string value = fmt::format("{:.4g}", f.value);
      const bool is_plain = f.computed.find(' ') == std::string::npos;
      out += fmt::format("- {}: {}{}{}{}\n", f.text, is_plain ? "" : f.computed + " = ", value, f.unit.empty() ? "" : " ", f.unit);
    }
    for (const ClaimSimulation& m : c.simulated)
      out += fmt::format("- Simulated: {}: {:.4g} {} (`peal {}`; {})\n", m.text, m.value, m.unit, m.command, m.evidence);
    for (const ClaimEvidence& e : c.measured) out += fmt::format("- Measured: {} ({})\n", e.text, e.source);
    if (!c.arithmetic.empty() || !c.simulated.empty() || !c.measured.empty()) out += "\n";
    out += fmt::format("**{}.** {}\n", name_of(c.verdict), c.because);
  }
  return out;
}

std::string claims_json(const std::vector<Claim>& claims) {
  using json = nlohmann::ordered_json;
  json list = json::array();
  for (const Claim& c : claims) {
    json one = {{"id", c.id}, {"claim", c.claim}, {"verdict", name_of(c.verdict)}, {"because", c.because}};
    one["arithmetic"] = json::array();
    for (const ClaimFigure& f : c.arithmetic)
      one["arithmetic"].push_back({{"text", f.text}, {"formula", f.formula}, {"value", f.value}, {"unit", f.unit}});
    one["simulated"] = json::array();
    for (const ClaimSimulation& m : c.simulated)
      one["simulated"].push_back(
          {{"text", m.text}, {"command", "peal " + m.command}, {"value", m.value}, {"unit", m.unit}, {"evidence", m.evidence}});
    one["measured"] = json::array();
    for (const ClaimEvidence& e : c.measured) one["measured"].push_back({{"text", e.text}, {"source", e.source}});
    list.push_back(std::move(one));
  }
  return json{{"claims", std::move(list)}}.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace peal::topology
