// Computation graphs as JSON (peal.graph/1): read in any order of operators, brought into an order in which each follows what it uses.
#include <nlohmann/json.hpp>
#include <training/graph.hpp>
#include <unordered_map>

namespace peal::training {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchema = "peal.graph/1";
constexpr std::size_t kMostOperators = 100'000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

/// An operator as it stands in the file.
struct Entry {
  Operator op;
  std::vector<std::string> uses;
  bool has_layer = false;
};

class GraphReader {
 public:
  explicit GraphReader(const std::string& where) : where_(where) {}

  Result<Graph> read(const Json& json) {
    PEAL_TRY(check_top(json));
    for (const Json& item : json["operators"]) {
      PEAL_ASSIGN(Entry entry, read_entry(item));
      if (!numbers_.emplace(entry.op.name, entries_.size()).second) return refuse("there are two operators \"{}\"", entry.op.name);
      entries_.push_back(std::move(entry));
    }
    for (const Entry& entry : entries_)
      for (const std::string& used : entry.uses)
        if (numbers_.count(used) == 0) return refuse("\"{}\" uses \"{}\", which no operator makes", entry.op.name, used);
    Graph graph;
    graph.name = text_of(json, "name", where_);
    PEAL_TRY(put_in_order(graph));
    PEAL_TRY(fill_in(graph));
    PEAL_TRY(name_outputs(json, graph));
    return graph;
  }

 private:
  template <class... Args>
  tl::unexpected<Failure> refuse(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(ErrorCode::invalid_argument, "{}: {}", where_, fmt::format(text, std::forward<Args>(args)...));
  }

  static std::string text_of(const Json& json, const char* key, const std::string& otherwise) {
    const auto it = json.find(key);
    return it != json.end() && it->is_string() ? it->get<std::string>() : otherwise;
  }

  Status check_top(const Json& json) const {
    if (!json.is_object()) return refuse("not JSON, or cut off; a graph begins {{\"schema\": \"{}\"", kSchema);
    if (text_of(json, "schema", "") != kSchema) return refuse("not a graph: \"schema\" must be \"{}\"", kSchema);
    const auto list = json.find("operators");
    if (list == json.end() || !list->is_array() || list->empty()) return refuse("a graph has a list \"operators\" of one or more");
    if (list->size() > kMostOperators) return refuse("{} operators; at most {} are read", list->size(), kMostOperators);
    return {};
  }

  Result<OperatorKind> kind_of(const std::string& name, const std::string& text) const {
    std::vector<std::string_view> known;
    for (int i = 0; i < kOperatorKinds && !is_communication(static_cast<OperatorKind>(i)); ++i) {
      known.push_back(name_of(static_cast<OperatorKind>(i)));
      if (known.back() == text) return static_cast<OperatorKind>(i);
    }
    return refuse("\"{}\" is of kind \"{}\"; known are {}", name, text, fmt::join(known, ", "));
  }

  Result<std::int64_t> whole(const Json& json, const std::string& name, const char* key, std::int64_t least, std::int64_t otherwise) const {
    const auto it = json.find(key);
    if (it == json.end()) return otherwise;
    if (!it->is_number_integer() || it->get<std::int64_t>() < least || it->get<std::int64_t>() > kMostElements)
      return refuse("\"{}\" of \"{}\" must be a whole number from {}", key, name, least);
    return it->get<std::int64_t>();
  }

  Result<bool> flag(const Json& json, const std::string& name, const char* key) const {
    const auto it = json.find(key);
    if (it == json.end()) return false;
    if (!it->is_boolean()) return refuse("\"{}\" of \"{}\" must be true or false", key, name);
    return it->get<bool>();
  }

  Result<Shape> read_shape(const Json& json, const std::string& name) const {
    const auto it = json.find("shape");
    if (it == json.end() || !it->is_array() || it->empty() || it->size() > 2)
      return refuse("\"{}\" needs a \"shape\" of one or two sizes, such as [4, 8]", name);
    Shape shape;
    for (const Json& size : *it) {
      constexpr std::int64_t kMostSize = 1 << 28;
      if (!size.is_number_integer() || size.get<std::int64_t>() < 1 || size.get<std::int64_t>() > kMostSize)
        return refuse("the sizes of \"{}\" must be whole numbers from 1 to {}", name, kMostSize);
      shape.push_back(size.get<std::int64_t>());
    }
    if (elements_of(shape) > kMostElements) return refuse("\"{}\" has more than 2^40 elements", name);
    return shape;
  }

  Result<Entry> read_entry(const Json& json) const {
    Entry entry;
    Operator& op = entry.op;
    op.name = json.is_object() ? text_of(json, "name", "") : "";
    if (op.name.empty()) return refuse("every operator is an object with a \"name\"");
    PEAL_ASSIGN(op.kind, kind_of(op.name, text_of(json, "kind", "")));
    if (op.kind == OperatorKind::input || op.kind == OperatorKind::parameter) {
      PEAL_ASSIGN(op.shape, read_shape(json, op.name));
    }
    entry.has_layer = json.contains("layer");
    PEAL_ASSIGN(const std::int64_t layer, whole(json, op.name, "layer", 0, 0));
    PEAL_ASSIGN(const std::int64_t heads, whole(json, op.name, "heads", 1, 1));
    if (layer > (1 << 20) || heads > (1 << 20)) return refuse("\"layer\" and \"heads\" of \"{}\" may be 2^20 at most", op.name);
    op.layer = static_cast<int>(layer);
    op.heads = static_cast<int>(heads);
    PEAL_ASSIGN(op.below, whole(json, op.name, "below", 1, 0));
    PEAL_ASSIGN(op.is_causal, flag(json, op.name, "causal"));
    PEAL_ASSIGN(op.transposes, flag(json, op.name, "transpose"));
    if (const auto it = json.find("inputs"); it != json.end()) {
      if (!it->is_array()) return refuse("\"inputs\" of \"{}\" must be a list of names", op.name);
      for (const Json& used : *it) {
        if (!used.is_string()) return refuse("\"inputs\" of \"{}\" must be a list of names", op.name);
        entry.uses.push_back(used.get<std::string>());
      }
    }
    if (op.kind <= OperatorKind::parameter && !entry.uses.empty()) return refuse("{} \"{}\" takes no inputs", name_of(op.kind), op.name);
    return entry;
  }

  /// Those that stand in the file's order where it allows; else a depth-first walk, which also finds cycles. The stack is our own: a
  /// file may hold a chain of any length.
  Status put_in_order(Graph& graph) {
    enum : char { kNew, kOpen, kDone };
    std::vector<char> state(entries_.size(), kNew);
    struct Step {
      std::size_t number;
      std::size_t next;
    };
    std::vector<int> place(entries_.size(), -1);
    for (std::size_t first = 0; first < entries_.size(); ++first) {
      std::vector<Step> path;
      if (state[first] == kNew) path.push_back({first, 0}), state[first] = kOpen;
      while (!path.empty()) {
        auto& [number, next] = path.back();
        if (next < entries_[number].uses.size()) {
          const std::size_t used = numbers_.at(entries_[number].uses[next++]);
          if (state[used] == kOpen) return cycle_of(path, used);
          if (state[used] == kNew) path.push_back({used, 0}), state[used] = kOpen;
          continue;
        }
        for (const std::string& used : entries_[number].uses) entries_[number].op.inputs.push_back(place[numbers_.at(used)]);
        place[number] = static_cast<int>(graph.operators.size());
        graph.operators.push_back(entries_[number].op);
        has_layer_.push_back(entries_[number].has_layer);
        state[number] = kDone;
        path.pop_back();
      }
    }
    return {};
  }

  template <class Path>
  tl::unexpected<Failure> cycle_of(const Path& path, std::size_t used) const {
    constexpr std::size_t kMostShown = 12;
    std::vector<std::string> names;
    bool is_inside = false;
    for (const auto& step : path) {
      is_inside = is_inside || step.number == used;
      if (is_inside) names.push_back(entries_[step.number].op.name);
    }
    const std::size_t length = names.size();
    if (length > kMostShown) names.resize(kMostShown), names.emplace_back("...");
    names.push_back(entries_[used].op.name);
    return refuse("the graph has a cycle of {}: {}; an operator cannot use what is made of it", length, fmt::join(names, " uses "));
  }

  Status fill_in(Graph& graph) const {
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      Operator& op = graph.operators[i];
      graph.has_layers = graph.has_layers || has_layer_[i];
      if (op.kind <= OperatorKind::parameter) continue;
      std::vector<Shape> operands;
      int layer = 0;
      for (const int used : op.inputs) {
        const Operator& made = graph.operators[static_cast<std::size_t>(used)];
        operands.push_back(made.shape);
        if (made.kind > OperatorKind::parameter) layer = std::max(layer, made.layer);
        if (has_layer_[i] && made.kind > OperatorKind::parameter && made.layer > op.layer)
          return refuse("\"{}\" of layer {} uses \"{}\" of layer {}: layers cannot go back", op.name, op.layer, made.name, made.layer);
      }
      if (!has_layer_[i]) op.layer = layer;
      Result<Shape> shape = shape_of(op, operands);
      if (!shape) return refuse("{}", shape.error().message);
      op.shape = std::move(*shape);
      PEAL_TRY(check_numbers(graph, op));
    }
    return {};
  }

  /// Whole numbers choose rows and classes, and have to be below how many there are.
  Status check_numbers(const Graph& graph, const Operator& op) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Operator& used = graph.operators[static_cast<std::size_t>(op.inputs[i])];
      const bool chooses = (op.kind == OperatorKind::embedding && i == 0) || (op.kind == OperatorKind::cross_entropy && i == 1);
      if (chooses != (used.below > 0))
        return refuse("\"{}\" {} \"{}\", {}", op.name, chooses ? "chooses by" : "computes with", used.name,
                      chooses ? "which must be an input with \"below\": N" : "which holds whole numbers that choose (\"below\")");
      const std::int64_t choices = !chooses ? 0 : graph.operators[static_cast<std::size_t>(op.inputs[1 - i])].shape[i == 0 ? 0 : 1];
      if (chooses && used.below > choices)
        return refuse("\"{}\" chooses among {}, but \"{}\" is below {}; give at most {}", op.name, choices, used.name, used.below, choices);
    }
    return {};
  }

  Status name_outputs(const Json& json, Graph& graph) const {
    const auto it = json.find("outputs");
    if (it == json.end()) {
      std::vector<bool> is_used(graph.operators.size());
      for (const Operator& op : graph.operators)
        for (const int used : op.inputs) is_used[static_cast<std::size_t>(used)] = true;
      for (std::size_t i = 0; i < is_used.size(); ++i)
        if (!is_used[i] && graph.operators[i].kind > OperatorKind::parameter) graph.outputs.push_back(static_cast<int>(i));
    } else if (it->is_array()) {
      for (const Json& name : *it) {
        const int number = name.is_string() ? graph.find(name.get_ref<const std::string&>()) : -1;
        if (number < 0 || graph.operators[static_cast<std::size_t>(number)].kind <= OperatorKind::parameter)
          return refuse("every one of \"outputs\" must name an operator that computes");
        graph.outputs.push_back(number);
      }
    }
    if (graph.outputs.empty()) return refuse("the graph computes nothing; give it an operator beside inputs and parameters");
    return {};
  }

  const std::string& where_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<bool> has_layer_;  ///< by number in the graph
};

}  // namespace

Result<Graph> read_graph(std::string_view text, const std::string& where) {
  constexpr std::size_t kMostBytes = 16u << 20;
  if (text.size() > kMostBytes) return fail(ErrorCode::invalid_argument, "{}: more than 16 MiB; at most 100,000 operators are read", where);
  return GraphReader(where).read(Json::parse(text, nullptr, false));
}

bool is_graph_json(std::string_view text) { return text.substr(0, 4096).find("peal.graph/") != std::string_view::npos; }

std::string graph_json(const Graph& graph) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Operator& op : graph.operators) {
    nlohmann::ordered_json item{{"name", op.name}, {"kind", name_of(op.kind)}};
    if (op.kind <= OperatorKind::parameter) item["shape"] = op.shape;
    for (const int used : op.inputs) item["inputs"].push_back(graph.operators[static_cast<std::size_t>(used)].name);
    if (op.below > 0) item["below"] = op.below;
    if (op.kind == OperatorKind::attention) item["heads"] = op.heads, item["causal"] = op.is_causal;
    if (op.transposes) item["transpose"] = true;
    if (graph.has_layers && op.kind > OperatorKind::parameter) item["layer"] = op.layer;
    list.push_back(std::move(item));
  }
  nlohmann::ordered_json json{{"schema", kSchema}, {"name", graph.name}, {"operators", std::move(list)}};
  for (const int output : graph.outputs) json["outputs"].push_back(graph.operators[static_cast<std::size_t>(output)].name);
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace peal::training
