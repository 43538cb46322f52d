#include <base/names.hpp>
#include <base/units.hpp>
#include <CLI/CLI.hpp>
#include <cli/host_memory.hpp>
#include <cli/layout_words.hpp>
#include <cli/train_words.hpp>
#include <parallel/text_source.hpp>

namespace peal::cli {

namespace {

constexpr double kMostSamples = 1 << 30;
constexpr std::int64_t kMostWidth = 1 << 30;
constexpr double kMostRate = 1;  // Adam moves every parameter by so much a step

training::Model small_gpt(const TrainWords& words) {
  training::Model model;
  model.name = "small-gpt";
  model.title = "Small GPT";
  training::Transformer& t = model.transformer;
  t.layers = words.layers;
  t.hidden = words.hidden;
  t.heads = t.kv_heads = words.heads;
  t.head_dim = words.heads > 0 ? words.hidden / words.heads : 0;
  t.ffn = words.ffn > 0 ? words.ffn : 4 * words.hidden;
  t.vocab = parallel::kTextSymbols;
  t.seq_len = t.positions = words.seq;
  t.has_biases = true;
  t.norm = training::Norm::layer;
  t.ties_embeddings = words.tie_embeddings;
  if (words.experts > 0) {
    t.experts.count = words.experts;
    t.experts.chosen = words.chosen;
    t.experts.ffn = t.ffn;
  }
  return model;
}

Result<int> global_batch_of(const TrainWords& words) {
  if (words.global_batch != 0) return words.global_batch;
  const double samples = 4.0 * words.micro_batch * words.dp;
  if (samples <= kMostSamples) return 4 * words.micro_batch * words.dp;
  return fail(ErrorCode::invalid_argument, "--micro-batch {} on --dp {} ranks are {:.0f} samples a step; give at most {:.0f}",
              words.micro_batch, words.dp, samples, kMostSamples);
}

// Whatever the machine is, more than this is a slip of the keyboard, and would not fit into numbers.
Status check_sizes(const TrainWords& words) {
  const std::pair<const char*, std::int64_t> sizes[] = {{"hidden", words.hidden}, {"ffn", words.ffn}, {"seq", words.seq}};
  for (const auto& [name, size] : sizes)
    if (size < 0 || size > kMostWidth) return fail(ErrorCode::invalid_argument, "--{} {}: give 1 to {}", name, size, kMostWidth);
  return {};
}

// All ranks are this host's where `ranks` is 0: it starts them.
Status check_memory(const parallel::GptJob& job, int ranks) {
  const double needed = parallel::least_bytes(job) * (ranks == 0 ? job.layout.gpus() : 1);
  const double there = host_memory_bytes();
  if (needed <= there) return {};
  return fail(ErrorCode::invalid_argument,
              "this model takes {:.3g} GB at least, and this host has {:.3g}; give fewer --layers, a smaller --hidden, --ffn or --seq, "
              "fewer --experts, or --zero 3 where --dp divides it",
              needed * 1e-9, there * 1e-9);
}

}  // namespace

void add_train_options(CLI::App& command, TrainWords& words) {
  command.add_option("--dp", words.dp, "Ranks that train on different samples")->capture_default_str();
  command.add_option("--tp", words.tp, "Ranks that share every layer's matrices")->capture_default_str();
  command.add_option("--pp", words.pp, "Stages of layers")->capture_default_str();
  command.add_option("--cp", words.cp, "Ranks that share a sequence")->capture_default_str();
  command.add_option("--ep", words.ep, "Ranks, of --dp times --cp, that share the --experts of a layer")->capture_default_str();
  command.add_flag("--sequence-parallel", words.sequence_parallel, "Cut what lies between tensor-parallel parts along the tokens");
  command
      .add_option("--zero", words.zero, "ZeRO stage: data-parallel ranks divide nothing (0), optimiser (1), gradients (2), parameters (3)")
      ->capture_default_str();
  command.add_option("--pipeline", words.pipeline, "gpipe, 1f1b, interleaved or zero-bubble (default: 1f1b, interleaved with --vpp)");
  command.add_option("--vpp", words.vpp, "Pieces of the model that a stage holds (interleaved)")->capture_default_str();
  command.add_option("--micro-batch", words.micro_batch, "Samples of a data-parallel rank at a time")->capture_default_str();
  command.add_option("--global-batch", words.global_batch, "Samples of a step (default: four micro batches a data-parallel rank)");
  command.add_option("--recompute", words.recompute, "What the way back computes anew: none or full")->capture_default_str();
  command.add_option("--bucket", words.bucket, "Bytes of gradients that travel together")->capture_default_str();
  command.add_flag("--no-overlap", words.no_overlap, "Gradients travel after the backward pass, not beside it");
  command.add_flag("--async", words.asynchronous,
                   "Asynchronous: --dp workers push gradients to one more rank and pull parameters from it, nobody in step with anybody");
  command.add_option("--staleness", words.staleness, "Steps that a worker of --async may be ahead of the slowest (default: unbounded)");
  command.add_option("--straggler", words.straggler, "The last worker of --async takes so many times as long for a step")
      ->capture_default_str();
  command.add_option("--layers", words.layers, "Layers of the model")->capture_default_str();
  command.add_option("--hidden", words.hidden, "Its width")->capture_default_str();
  command.add_option("--heads", words.heads, "Attention heads")->capture_default_str();
  command.add_option("--ffn", words.ffn, "Inner width of its feed-forward parts (default: four times --hidden)");
  command.add_option("--experts", words.experts, "Experts that every feed-forward part is cut into, --ffn wide each (default: none)");
  command.add_option("--chosen", words.chosen, "Experts that a token takes")->capture_default_str();
  command.add_flag("--tie-embeddings", words.tie_embeddings, "The head takes the words' vectors for its matrix");
  command.add_option("--seq", words.seq, "Tokens of a sample")->capture_default_str();
  command.add_option("--steps", words.steps, "Steps to take")->capture_default_str();
  command.add_option("--lr", words.learning_rate, "Learning rate of Adam")->capture_default_str();
  command.add_option("--seed", words.seed, "Of first parameters and text")->capture_default_str();
  command.add_flag("--check", words.check,
                   "Train serially on rank 0 beside it, and compare loss and every gradient of every step; exit code 1 where they differ");
  command.add_option("--arithmetic", words.arithmetic, "Who computes: torch, plain loops, or auto: torch where it is installed")
      ->capture_default_str();
  command.add_option("--save", words.save, "File of a checkpoint, written at the end and after Ctrl-C");
  command.add_option("--save-every", words.save_every, "Steps from one checkpoint to the next");
  command.add_option("--resume", words.resume, "Checkpoint to go on from, whatever its layout was");
  command.add_option("--timeout", words.timeout_s, "Stop after so many seconds (exit code 124)");
  command.add_option("--json", words.json, "Write the steps as JSON to a file, or - for standard output");
}

Result<parallel::TrainOptions> train_options_of(const TrainWords& words, int ranks) {
  PEAL_TRY(check_sizes(words));
  parallel::TrainOptions options;
  parallel::GptJob& job = options.job;
  job.model = small_gpt(words);
  training::Layout& layout = job.layout;
  layout.tp = words.tp;
  layout.cp = words.cp;
  layout.dp = words.dp;
  layout.pp = words.pp;
  layout.ep = words.ep;
  layout.vpp = words.vpp;
  layout.zero = words.zero;
  layout.has_sequence_parallel = words.sequence_parallel;
  layout.micro_batch = words.micro_batch;
  PEAL_ASSIGN(layout.global_batch, global_batch_of(words));
  layout.overlaps_gradients = !words.no_overlap;
  layout.precision = training::Precision::fp32;
  PEAL_ASSIGN(layout.pipeline, pipeline_of(words.pipeline, layout.vpp));
  PEAL_ASSIGN(layout.recompute, training::parse_recompute(words.recompute));
  PEAL_ASSIGN(layout.bucket_bytes, bucket_of(words.bucket));
  if (words.experts < 0) return fail(ErrorCode::invalid_argument, "--experts {} is no number of experts; give 2 or more", words.experts);
  if (words.experts == 0 && words.ep > 1)
    return fail(ErrorCode::invalid_argument, "--ep {} spreads experts, and there are none; give --experts {}, too", words.ep, words.ep);
  PEAL_TRY(training::check(job.model, layout, ranks));
  PEAL_TRY(parallel::check_job(job));
  PEAL_TRY(check_memory(job, ranks));
  if (layout.gpus() > 256) return fail(ErrorCode::invalid_argument, "{} ranks are more than a host runs; give at most 256", layout.gpus());
  if (words.steps < 1) return fail(ErrorCode::invalid_argument, "--steps {} is no number of steps; give 1 or more", words.steps);
  if (words.save_every < 0)
    return fail(ErrorCode::invalid_argument, "--save-every {} is no number of steps; give 1 or more", words.save_every);
  if (!(words.learning_rate >= 0 && words.learning_rate <= kMostRate))
    return fail(ErrorCode::invalid_argument, "--lr {} is no learning rate; give 0 to {}", words.learning_rate, kMostRate);
  if (words.save_every > 0 && words.save.empty())
    return fail(ErrorCode::invalid_argument, "--save-every needs a file; give --save FILE, too");
  // Who starts the ranks does not compute: it loads libtorch only to say that it is not there.
  const bool is_launcher = ranks == 0 && words.arithmetic == "auto";
  PEAL_ASSIGN(job.arithmetic, parallel::find_arithmetic(is_launcher ? "plain" : words.arithmetic));
  job.seed = static_cast<std::uint64_t>(words.seed);
  job.learning_rate = words.learning_rate;
  options.steps = words.steps;
  options.checks = words.check;
  options.save = words.save;
  options.save_every = words.save_every;
  options.resume = words.resume;
  return options;
}

Result<parallel::StaleOptions> stale_options_of(const TrainWords& words, int ranks) {
  PEAL_ASSIGN(const parallel::TrainOptions plain, train_options_of(words, ranks > 0 ? words.dp * words.tp * words.pp * words.cp : 0));
  const training::Layout& layout = plain.job.layout;
  if (layout.gpus() != layout.dp || layout.zero > 0 || layout.ep > 1)
    return fail(ErrorCode::unsupported,
                "--async is for data parallelism alone; give --dp {} and leave --tp, --pp, --cp, --ep and --zero out", layout.dp);
  if (words.check || !words.save.empty() || !words.resume.empty() || !words.json.empty())
    return fail(ErrorCode::unsupported,
                "--async has no serial run to be equal to, and writes no files; leave --check, --save, --resume and --json out");
  if (words.staleness < kUnbounded)
    return fail(ErrorCode::invalid_argument, "--staleness {} is no number of steps; give 0 or more, or leave it out", words.staleness);
  if (!(words.straggler >= 1 && words.straggler <= 100))
    return fail(ErrorCode::invalid_argument, "--straggler {} is no factor of a slow worker; give 1 to 100", words.straggler);
  parallel::StaleOptions options;
  options.job = plain.job;
  options.steps = plain.steps;
  options.bound = words.staleness;
  options.straggler = words.straggler;
  return options;
}

}  // namespace peal::cli
