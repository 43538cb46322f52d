#include <algorithm>
#include <charconv>
#include <topology/machine.hpp>
#include <training/memory.hpp>

#include "rates.hpp"
#include "run_words.hpp"

namespace peal::training {

namespace {

bool is_gated(const PublishedRun& run) { return has_word(run.model, "llama") || has_word(run.model, "intern"); }
/// Models since 2023 have neither biases nor learned positions, and a head of their own.
bool is_plain(const PublishedRun& run) { return is_gated(run) || has_word(run.model, "nemotron"); }

Result<Model> catalogued(const PublishedRun& run) {
  const std::string_view name = has_word(run.model, "resnet")        ? "resnet-50"
                                : has_word(run.model, "deepseek-v2") ? "deepseek-v2"
                                                                     : "deepseek-v3";
  PEAL_ASSIGN(Model model, model_named(name));
  if (run.layers > 0 && model.is_transformer()) {
    model.transformer.layers = run.layers;
    model.transformer.extra_predictions = 0;
    model.transformer.experts.dense_layers = std::min(model.transformer.experts.dense_layers, 1);
  }
  return model;
}

/// Of a model whose row does not say it.
Result<std::int64_t> words_of(const PublishedRun& run) {
  if (has_word(run.model, "llama3")) {
    PEAL_ASSIGN(const Model llama, model_named("llama3-8b"));
    return llama.transformer.vocab;
  }
  PEAL_ASSIGN(const double words, training_constant(has_word(run.model, "intern") ? "words.internlm" : "words.gpt"));
  return static_cast<std::int64_t>(words);
}

/// The same of the inner width.
Result<std::int64_t> inner_width_of(const PublishedRun& run) {
  if (!has_word(run.model, "intern")) return 4 * run.hidden;
  PEAL_ASSIGN(const double width, training_constant("inner.internlm"));
  return static_cast<std::int64_t>(width);
}

Result<Model> model_of(const PublishedRun& run, std::vector<std::string>& assumptions) {
  if (has_word(run.model, "resnet") || has_word(run.model, "deepseek")) return catalogued(run);
  if (run.layers == 0 || run.hidden == 0 || run.heads == 0)
    return fail(ErrorCode::unsupported, "the row does not say how many layers, heads and how wide {} is", run.model);
  Model model;
  model.name = model.title = run.model;
  Transformer& t = model.transformer;
  const bool is_bert = has_word(run.model, "bert");
  t.layers = run.layers;
  t.hidden = run.hidden;
  t.heads = run.heads;
  t.kv_heads = run.kv_heads > 0 ? run.kv_heads : run.heads;
  t.head_dim = run.hidden / run.heads;
  t.is_gated = is_gated(run);
  t.ffn = run.ffn;
  if (t.ffn == 0) {
    PEAL_ASSIGN(t.ffn, inner_width_of(run));
  }
  t.vocab = run.vocab;
  t.seq_len = run.seq_len;
  t.norm = t.is_gated ? Norm::rms : Norm::layer;
  t.has_biases = !is_plain(run);
  t.is_causal = !is_bert;
  t.has_pooler = is_bert;
  t.ties_embeddings = !is_plain(run);
  t.positions = is_plain(run) || has_word(run.model, "mpt") ? 0 : run.seq_len;
  if (t.vocab == 0) {
    PEAL_ASSIGN(t.vocab, words_of(run));
    assumptions.push_back(fmt::format("a vocabulary of {}", t.vocab));
  }
  if (t.hidden % t.heads != 0) return fail(ErrorCode::unsupported, "{} does not divide by {} heads", t.hidden, t.heads);
  return model;
}

/// The number behind a word; 0: it is not there.
int number_behind(std::string_view word, const std::string& text) {
  const std::size_t at = text.find(word);
  int number = 0;
  if (at != text.npos) std::from_chars(text.data() + at + word.size(), text.data() + text.size(), number);
  return number;
}

void read_sharding(const PublishedRun& run, Layout& layout, std::vector<std::string>& assumptions) {
  if (has_word(run.sharding, "zero-1")) layout.zero = 1;
  if (has_word(run.sharding, "zero-2") || has_word(run.sharding, "shard_grad")) layout.zero = 2;
  if (has_word(run.sharding, "fsdp2") || has_word(run.sharding, "full_shard") || has_word(run.sharding, "zero-3")) layout.zero = 3;
  layout.zero_group = number_behind("shard group ", run.sharding);
  if (layout.zero_group >= layout.data_ranks()) layout.zero_group = 0;
  if (run.sharding.empty() && (has_word(run.software, "megatron-lm 0.") || has_word(run.software, "nemo"))) {
    layout.zero = 1;
    assumptions.push_back("ZeRO 1, as this release's examples have it");
  }
}

Status read_batches(const PublishedRun& run, const Model& model, Layout& layout, std::vector<std::string>& assumptions) {
  layout.micro_batch = run.micro_batch;
  layout.global_batch = run.global_batch;
  if (layout.micro_batch == 0 && !model.is_transformer()) {
    layout.micro_batch = layout.precision == Precision::fp32 ? 128 : 256;
    assumptions.push_back(fmt::format("{} images a GPU", layout.micro_batch));
  } else if (layout.micro_batch == 0) {
    // torchtitan cuts a rank's batch into as many micro batches as stages, or twice that; others take one sample at a time.
    const int local = std::max(1, run.global_batch / std::max(1, run.dp));
    layout.micro_batch = run.pp > 1 && has_word(run.software, "torchtitan") ? std::max(1, local / (2 * run.pp)) : 1;
    assumptions.push_back(fmt::format("micro batches of {}", layout.micro_batch));
  }
  const std::int64_t together = static_cast<std::int64_t>(layout.micro_batch) * layout.dp;
  if (layout.global_batch == 0) layout.global_batch = static_cast<int>(std::min<std::int64_t>(together, 1'000'000'000));
  if (layout.global_batch % together != 0)
    return fail(ErrorCode::unsupported, "a batch of {} is not made of micro batches of {} on {} data-parallel ranks", layout.global_batch,
                layout.micro_batch, layout.dp);
  return {};
}

/// Bytes that the recipe says, else of its software; 0: the layout's own.
double bucket_of(const PublishedRun& run, const Software& software, const Layout& layout) {
  constexpr int kMostMegabytes = 1'000'000;
  const int said = std::clamp(number_behind("buckets of ", run.notes), 0, kMostMegabytes);
  if (said > 0) return 1e6 * said;
  return std::max(software.bucket, software.bucket_a_rank * layout.data_ranks()) * bytes_of(layout.precision);
}

Result<Layout> layout_of(const PublishedRun& run, const Model& model, const std::string& software, std::vector<std::string>& assumptions) {
  Layout layout;
  const auto one = [](int value) { return std::max(1, value); };
  layout.tp = one(run.tp);
  layout.cp = one(run.cp);
  layout.dp = one(run.dp);
  layout.pp = one(run.pp);
  layout.ep = one(run.ep);
  layout.vpp = one(run.vpp);
  if (has_word(run.schedule, "interleaved") && layout.vpp == 1 && layout.pp > 1) {
    layout.vpp = 2;
    assumptions.push_back("two chunks a stage");
  }
  if (layout.vpp > 1) layout.pipeline = PipelineKind::interleaved;
  const double ranks = 1.0 * layout.tp * layout.pp * layout.cp * layout.dp;
  if (ranks != run.gpus)
    return fail(ErrorCode::unsupported, "tp {} x pp {} x cp {} x dp {} is {:g}, and the row has {} GPUs", layout.tp, layout.pp, layout.cp,
                layout.dp, ranks, run.gpus);
  PEAL_ASSIGN(layout.precision, precision_word(run));
  PEAL_TRY(read_batches(run, model, layout, assumptions));
  read_sharding(run, layout, assumptions);
  layout.seq_len = run.seq_len;
  if (software == "dle-pytorch" && run.seq_len > 128) {
    PEAL_ASSIGN(const double binned, training_constant("binned.dle-pytorch"));
    layout.seq_len = static_cast<std::int64_t>(binned * static_cast<double>(run.seq_len));
  }
  const bool is_megatron_of_then = software == "megatron-2021" || software == "megatron-deepspeed";
  layout.recompute = has_word(run.recompute, "full")        ? Recompute::full
                     : has_word(run.recompute, "selective") ? Recompute::selective
                                                            : Recompute::none;
  // Sequence parallelism came with selective recomputation (arXiv 2205.05198); software since has it wherever tensors are cut.
  layout.has_sequence_parallel =
      layout.tp > 1 && (is_megatron_of_then ? layout.recompute == Recompute::selective : software != "internevo");
  layout.overlaps_gradients = !is_megatron_of_then;
  PEAL_ASSIGN(const Software traits, software_of(software, layout));
  layout.bucket_bytes = bucket_of(run, traits, layout);
  layout.overlaps_tensor = (traits.overlaps_tensor || has_word(run.notes, "async")) && !has_word(run.notes, "vanilla");
  return layout;
}

/// Where the row does not say what is computed anew: the least with which it fits.
void choose_recompute(const PublishedRun& published, TrainingRun& run) {
  if (!published.recompute.empty() || !run.model.is_transformer()) return;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    run.layout.recompute = recompute;
    if (fits(run.model, run.layout, run.processor, run.software)) break;
  }
  if (run.layout.recompute != Recompute::none)
    run.assumptions.push_back(fmt::format("{} recomputation, as it fits so", name_of(run.layout.recompute)));
}

/// A rate is a time once somebody says what of the work it counts.
Result<double> seconds_of(const PublishedRun& published, const TrainingRun& run) {
  if (published.seconds > 0) return published.seconds;
  if (published.samples_per_s > 0) return run.layout.global_batch / published.samples_per_s;
  if (published.tflops <= 0) return fail(ErrorCode::unsupported, "the row has neither a time nor a rate");
  // NeMo counts causal attention whole (its flops_formulas); so do those who say nothing.
  const double flops = training_flops(run.model, published.seq_len) * run.layout.global_batch;
  return flops / (published.tflops * 1e12 * published.gpus);
}

topology::Graph renamed(const topology::Graph& graph, const std::string& name) {
  topology::Graph other;
  const std::vector<int> compute = graph.compute_devices();
  for (int i = 0; i < graph.device_count(); ++i) {
    topology::Device device = graph.device(i);
    if (std::find(compute.begin(), compute.end(), i) != compute.end()) device.name = name;
    (void)other.add_device(std::move(device));
  }
  for (const topology::Link& link : graph.links()) (void)other.add_link(link);
  other.title = graph.title;
  other.rank_kind = graph.rank_kind;
  return other;
}

}  // namespace

Result<TrainingRun> run_of(const PublishedRun& published) {
  TrainingRun run;
  run.software = software_word(published);
  if (run.software.empty()) return fail(ErrorCode::unsupported, "nothing is known of software \"{}\"", published.software);
  PEAL_ASSIGN(run.processor, processor_named(processor_word(published)));
  run.processor.name = processor_word(published);
  bool is_named = false;
  run.machine = machine_word(published, is_named);
  if (run.machine.empty()) return fail(ErrorCode::unsupported, "the catalogue has no machine with {} GPUs of that kind", published.gpu);
  if (!is_named) run.assumptions.push_back(fmt::format("nodes as {}", run.machine));
  PEAL_ASSIGN(run.model, model_of(published, run.assumptions));
  PEAL_ASSIGN(run.layout, layout_of(published, run.model, run.software, run.assumptions));
  PEAL_TRY(check(run.model, run.layout, published.gpus));
  choose_recompute(published, run);
  PEAL_ASSIGN(run.seconds, seconds_of(published, run));
  PEAL_ASSIGN(const topology::Graph machine, topology::load_machine(run.machine));
  const int each = static_cast<int>(machine.compute_devices().size());
  run.nodes = (published.gpus + each - 1) / each;
  return run;
}

Result<topology::Cluster> cluster_of(const TrainingRun& run) {
  PEAL_ASSIGN(const topology::Graph machine, topology::load_machine(run.machine));
  return topology::build_cluster(renamed(machine, run.processor.name), run.nodes);
}

}  // namespace peal::training
