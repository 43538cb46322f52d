// peal graph: computation graphs cut and proved, execution traces summed up; peal sim trace: traces in virtual time.
#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <cli/commands.hpp>
#include <filesystem>
#include <memory>
#include <topology/yaml_tree.hpp>
#include <training/build_graph.hpp>
#include <training/cut_graph.hpp>
#include <training/trace_times.hpp>

namespace peal::cli {

namespace {

struct GraphWords {
  std::vector<std::string> files;
  training::CutOptions cut;
  std::uint64_t seed = 1;
  bool is_unproved = false;
  std::string json;
};

struct TraceWords {
  std::vector<std::string> files;
  ClusterWords cluster;
  std::string whose, json;
};

std::string proof_text(const training::CutProof& proof, std::string_view of) {
  return fmt::format(
      "proved on random numbers{}: {} parts of tensors and {} of gradients agree with the whole graph's (worst {:.1e}), {} messages, "
      "nobody waits for ever\n",
      of, proof.tensors, proof.gradients, proof.worst, proof.messages);
}

/// `what`: a computation graph, or a model.
Status check_one_file(const GraphWords& words, std::string_view what) {
  if (words.files.size() == 1) return {};
  return fail(ErrorCode::invalid_argument, "{} is a {}, of which one is read at a time; leave {} out", words.files[0], what,
              words.files[1]);
}

/// `small`: what the cut is proved on, if not `graph` itself.
Result<int> show_cut(const GraphWords& words, const training::Graph& graph, const training::Graph& small, std::string_view of) {
  PEAL_ASSIGN(const training::CutGraph cut, training::cut_graph(graph, words.cut));
  std::string said = training::graph_text(graph);
  if (words.cut.stages * words.cut.shards > 1) {
    said += training::cut_text(graph, cut);
    if (!words.is_unproved) {
      training::CutOptions options = words.cut;
      if (&small != &graph) options.first_layers.clear();
      PEAL_ASSIGN(const training::CutGraph small_cut, training::cut_graph(small, options));
      PEAL_ASSIGN(const training::CutProof proof, training::verify_cut(small, small_cut, words.seed));
      said += proof_text(proof, of);
    }
  }
  PEAL_TRY(write_report(said, words.json, [&] { return training::cut_json(graph, cut); }));
  return 0;
}

Result<int> show_model_graph(const GraphWords& words) {
  PEAL_TRY(check_one_file(words, "model"));
  PEAL_TRY(training::check_ranks(words.cut));
  PEAL_ASSIGN(const training::Model model, training::find_model(words.files[0]));
  PEAL_ASSIGN(const training::Graph graph, training::build_graph(model, model.transformer.seq_len));
  const training::Model small = training::small_model(model, words.cut.stages, words.cut.shards);
  PEAL_ASSIGN(const training::Graph small_graph, training::build_graph(small, small.transformer.seq_len));
  return show_cut(words, graph, small_graph,
                  fmt::format(", of the same form with {} layers of width {}", small.transformer.layers, small.transformer.hidden));
}

/// Says what was cut off; true where nothing was.
bool tell_cut_off(const std::vector<training::RankTrace>& traces) {
  bool is_whole = true;
  for (const training::RankTrace& trace : traces) {
    if (trace.cut_off.empty()) continue;
    std::fprintf(stderr, "peal: %s\n", trace.cut_off.c_str());
    is_whole = false;
  }
  return is_whole;
}

Result<int> show_traces(const GraphWords& words) {
  if (words.cut.stages != 1 || words.cut.shards != 1)
    return fail(ErrorCode::invalid_argument, "{} is an execution trace, which has no shapes to cut; leave --stages and --shards out",
                words.files[0]);
  PEAL_ASSIGN(const std::vector<training::RankTrace> traces, training::read_traces(words.files));
  for (const training::RankTrace& trace : traces) PEAL_TRY(training::check_order(trace));
  PEAL_TRY(write_report(training::traces_text(traces), words.json, [&] { return training::traces_json(traces); }));
  return tell_cut_off(traces) ? 0 : 1;
}

bool is_model(const std::string& text) {
  const std::string_view head = std::string_view(text).substr(0, 65536);
  return head.find("\"model_type\"") != std::string_view::npos || head.starts_with("transformer:") ||
         head.find("\ntransformer:") != std::string_view::npos;
}

Result<int> show_graph_or_traces(const GraphWords& words) {
  PEAL_TRY(can_write(words.json));
  const std::string& first = words.files[0];
  // What is no file may be a model of the catalogue; of a path, the file is what is missed.
  std::error_code error;
  const std::string ending = std::filesystem::path(first).extension().string();
  const bool is_path = first.find('/') != std::string::npos || ending == ".json" || ending == ".et" || ending == ".yaml";
  const bool is_folder = std::filesystem::is_directory(first, error);  // of a model that was downloaded
  if (is_folder || (!is_path && !std::filesystem::is_regular_file(first, error))) return show_model_graph(words);
  PEAL_ASSIGN(const std::string text, topology::read_small_file(first, 1024));
  if (is_model(text)) return show_model_graph(words);
  if (!training::is_graph_json(text)) return show_traces(words);
  PEAL_TRY(check_one_file(words, "computation graph"));
  PEAL_ASSIGN(const training::Graph graph, training::read_graph(text, first));
  return show_cut(words, graph, graph, "");
}

/// Jobs are often handed on with some of their ranks alone.
void tell_missing_ranks(const std::vector<training::RankTrace>& traces) {
  int last = 0;
  for (const training::RankTrace& trace : traces) last = std::max(last, trace.rank);
  if (static_cast<int>(traces.size()) <= last)
    fmt::print(stderr, "peal: the files are of {} ranks, and the highest is {}: groups are taken as those ranks alone; give all files\n",
               traces.size(), last);
}

Result<int> show_trace_study(const TraceWords& words) {
  PEAL_TRY(can_write(words.json));
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  if (cluster.ranks() < 1) return fail(ErrorCode::invalid_argument, "the machine has no GPUs; name one of `peal machines` with --machine");
  sim::Library library = sim::library_of(cluster, cluster.device_of_rank(0));
  if (!words.whose.empty()) {
    PEAL_ASSIGN(library, sim::parse_library(words.whose));
  }
  if (library == sim::Library::peal)
    return fail(ErrorCode::unsupported, "traces are simulated by a library's formula; give nccl, rccl or hccl");
  PEAL_ASSIGN(const std::vector<training::RankTrace> traces, training::read_traces(words.files));
  const bool is_whole = tell_cut_off(traces);
  tell_missing_ranks(traces);
  PEAL_ASSIGN(const training::TraceStudy study, training::simulate_traces(traces, training::library_times(cluster, library)));
  PEAL_TRY(write_report(training::trace_study_text(traces, study), words.json, [&] { return training::trace_study_json(traces, study); }));
  return is_whole ? 0 : 1;
}

}  // namespace

void add_graph(CLI::App& app, Action& action) {
  auto words = std::make_shared<GraphWords>();
  CLI::App* command = app.add_subcommand("graph",
                                         "Read a computation graph (JSON, peal.graph/1), or make that of a model, cut it by layers into "
                                         "stages and by tensors into shards, and prove\n"
                                         "the cut by running both; or sum up Chakra execution traces, one file a rank.\n"
                                         "Examples: peal graph model.json --stages 2 --shards 2\n"
                                         "          peal graph llama3-8b --stages 4 --shards 8\n"
                                         "          peal graph trace.*.et");
  command->add_option("files", words->files, "A graph in JSON, a model (by name or file), or traces NAME.RANK.et (or Chakra's JSON)")
      ->required();
  command->add_option("--stages", words->cut.stages, "Pipeline stages")->capture_default_str();
  command->add_option("--shards", words->cut.shards, "Shards of each stage (tensor parallel)")->capture_default_str();
  command
      ->add_option("--first-layers", words->cut.first_layers, "First layer of each stage after the first, such as 3,5 (default: balanced)")
      ->delimiter(',');
  command->add_option("--seed", words->seed, "Of the random numbers that a cut is proved on")->capture_default_str();
  command->add_flag("--unproved", words->is_unproved, "Do not run the cut, which large shapes forbid");
  command->add_option("--json", words->json,
                      "Write each rank's operators, or each trace's figures, as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return show_graph_or_traces(*words); }; });
}

void add_sim_trace(CLI::App& sim, Action& action) {
  auto words = std::make_shared<TraceWords>();
  CLI::App* command =
      sim.add_subcommand("trace",
                         "Run Chakra execution traces of all ranks on a machine in virtual time: computing as recorded, calls by a\n"
                         "library's formula.\n"
                         "Example: peal sim trace trace.*.et --machine dgx-h100");
  command->add_option("files", words->files, "Traces NAME.RANK.et, of all ranks of a job")->required();
  add_cluster_options(*command, words->cluster);
  command->add_option("--library", words->whose, "nccl, rccl or hccl (default: the one of the machine's GPUs)");
  command->add_option("--json", words->json, "Write the figures as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return show_trace_study(*words); }; });
}

}  // namespace peal::cli
