#include <base/csv.hpp>
#include <base/names.hpp>
#include <nlohmann/json.hpp>
#include <sim/validate.hpp>

namespace peal::sim {
namespace {

using json = nlohmann::ordered_json;

json errors_tree(const Errors& e) {
  if (e.rows == 0) return nullptr;
  return {{"cases", e.cases}, {"rows", e.rows}, {"median", e.median}, {"p90", e.p90}, {"worst", e.worst}, {"bias", e.bias}};
}

json by_size_tree(const ErrorsBySize& errors) {
  json tree = json::object();
  for (int r = 0; r < kSizeRanges; ++r) tree[std::string(name_of_range(r))] = errors_tree(errors[static_cast<std::size_t>(r)]);
  return tree;
}

json row_tree(const PredictedRow& row) {
  json tree = {{"line", row.measured.line},
               {"bytes", row.measured.bytes.value},
               {"in_place", row.measured.is_in_place},
               {"measured_us", row.measured.time_us}};
  if (row.answer) {
    tree["predicted_us"] = row.answer->time.microseconds();
    tree["error"] = row.signed_error();
    tree["algorithm"] = row.answer->algorithm;
    tree["protocol"] = row.answer->protocol;
    tree["channels"] = row.answer->channels;
  } else {
    tree["not_predicted"] = row.why_not;
  }
  if (!row.measured.set_apart.empty()) tree["set_apart"] = row.measured.set_apart;
  return tree;
}

json case_tree(const PredictedCase& c) {
  json tree = {{"case", c.published.label},
               {"machine", c.published.machine},
               {"title", c.title},
               {"library", name_of(c.whose)},
               {"collective", name_of(c.published.collective)},
               {"nodes", c.nodes},
               {"ranks", c.ranks},
               {"generation", c.generation}};
  if (!c.why_not.empty()) tree["not_predicted"] = c.why_not;
  tree["errors"] = by_size_tree(errors_by_size({&c}));
  tree["remarks"] = c.remarks;
  tree["rows"] = json::array();
  for (const PredictedRow& row : c.rows) tree["rows"].push_back(row_tree(row));
  return tree;
}

json constant_tree(const topology::LibraryConstant& c) {
  return {{"name", c.name},
          {"value", c.values[0]},
          {"what", c.what},
          {"source", c.source},
          {"cases", c.cases},
          {"machines", c.machines},
          {"is_evidence", c.machines.size() >= 2}};
}

json bound_tree(const Bounds& bounds) {
  json tree = json::object();
  const auto value = [](const std::optional<double>& b) { return b ? json(*b) : json(nullptr); };
  for (std::size_t r = 0; r < kSizeRanges; ++r)
    tree[std::string(name_of_range(static_cast<int>(r)))] = {{"median", value(bounds.median[r])}, {"p90", value(bounds.p90[r])}};
  return tree;
}

}  // namespace

std::string validation_json(const Validation& v, const Bounds& bounds) {
  json tree = {{"schema", "peal.validate/1"}, {"file", v.file}, {"errors", by_size_tree(v.errors)}, {"all", errors_tree(v.all)}};
  tree["bounds"] = bound_tree(bounds);
  tree["violations"] = violations(v, bounds);
  tree["classes"] = json::array();
  for (const ErrorClass& c : v.classes)
    tree["classes"].push_back({{"kind", c.kind}, {"name", c.name}, {"machines", c.machines}, {"errors", by_size_tree(c.errors)}});
  tree["free_constants"] = json::array();
  for (const topology::LibraryConstant& c : v.free) tree["free_constants"].push_back(constant_tree(c));
  tree["kept_out"] = json::array();
  for (const KeptOut& k : v.kept_out)
    tree["kept_out"].push_back({{"machine", k.machine}, {"cases", k.cases}, {"errors", by_size_tree(k.errors)}});
  if (!v.kept_out.empty()) tree["kept_out_errors"] = by_size_tree(v.kept_out_errors);
  tree["disagreements"] = json::array();
  for (const Disagreement& d : v.disagreements)
    tree["disagreements"].push_back({{"a", d.a}, {"b", d.b}, {"rows", d.rows}, {"rows_apart", d.apart}, {"difference", d.difference}});
  tree["tensions"] = json::array();
  for (const Tension& t : v.tensions)
    tree["tensions"].push_back(
        {{"constant", t.constant}, {"fast", t.fast}, {"fastest", t.fastest}, {"slow", t.slow}, {"slowest", t.slowest}});
  tree["cases"] = json::array();
  for (const PredictedCase& c : v.cases) tree["cases"].push_back(case_tree(c));
  return tree.dump(1, ' ', false, json::error_handler_t::replace);
}

std::string validation_csv(const Validation& v) {
  std::string text =
      "case_id,machine,library,collective,nodes,ranks,bytes,in_or_out_of_place,measured_us,predicted_us,error_percent,algorithm,protocol,"
      "channels,"
      "counted,reason\n";
  for (const PredictedCase& c : v.cases) {
    for (const PredictedRow& row : c.rows) {
      text += fmt::format("{},{},{},{},{},{},{},{},{:g},", csv_cell(c.published.id), csv_cell(c.published.machine), name_of(c.whose),
                          name_of(c.published.collective), c.nodes, c.ranks, row.measured.bytes.value,
                          row.measured.is_in_place ? "in" : "out", row.measured.time_us);
      if (row.answer)
        text += fmt::format("{:.6g},{:.2f},{},{},{},", row.answer->time.microseconds(), 100 * row.signed_error(),
                            csv_cell(row.answer->algorithm), csv_cell(row.answer->protocol), row.answer->channels);
      else
        text += ",,,,,";
      text += fmt::format("{},{}\n", row.is_judged() ? "yes" : "no",
                          csv_cell(row.answer                       ? row.measured.set_apart
                                   : row.measured.set_apart.empty() ? row.why_not
                                                                    : row.measured.set_apart));
    }
  }
  return text;
}

}  // namespace peal::sim
