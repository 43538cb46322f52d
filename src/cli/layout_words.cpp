#include <CLI/CLI.hpp>
#include <cli/layout_words.hpp>

namespace peal::cli {

void add_layout_options(CLI::App& command, LayoutWords& words) {
  training::Layout& l = words.layout;
  command.add_option("--tp", l.tp, "Ranks that share every layer's matrices (tensor parallel)")->capture_default_str();
  command.add_option("--pp", l.pp, "Stages of a pipeline, each with some of the layers")->capture_default_str();
  command.add_option("--dp", words.dp, "Copies that learn from different samples (default: what the GPUs leave)");
  command.add_option("--cp", l.cp, "Ranks that share a sequence (context parallel)")->capture_default_str();
  command.add_option("--ep", l.ep, "Ranks, of dp x cp, that the experts of a layer are spread over")->capture_default_str();
  command.add_option("--vpp", l.vpp, "Pieces of the model that a stage holds: above 1 the pipeline is interleaved")->capture_default_str();
  command.add_option("--zero", l.zero, "What dp ranks divide: 0 nothing, 1 optimiser, 2 and gradients, 3 and parameters (FSDP)")
      ->capture_default_str();
  command.add_option("--zero-group", l.zero_group, "Divide it within so many of them only (hybrid sharding)");
  command.add_option("--micro-batch", l.micro_batch, "Samples of a dp rank at a time")->capture_default_str();
  command.add_option("--global-batch", words.global_batch, "Samples of a step (default: four micro batches a stage of the pipeline)");
  command.add_option("--seq", l.seq_len, "Tokens of a sample (default: the model's)");
  command.add_option("--pipeline", words.pipeline, "gpipe, 1f1b, interleaved or zero-bubble (default: 1f1b, interleaved with --vpp)");
  command.add_option("--recompute", words.recompute, "What the backward pass computes anew: none, selective (attention) or full")
      ->capture_default_str();
  command.add_option("--precision", words.precision, "Of matrix products: fp32, tf32, fp16, bf16 or fp8")->capture_default_str();
  command.add_flag("--sequence-parallel", l.has_sequence_parallel, "Norms between tensor-parallel parts are cut along the sequence");
  command.add_flag("--no-overlap", words.has_no_overlap, "Gradients travel after the backward pass, not beside it");
  command.add_flag("--overlap-tensor", l.overlaps_tensor, "Tensor-parallel calls travel in pieces beside the products");
  command.add_option("--bucket", words.bucket,
                     "Bytes of gradients that travel together (default: 25 MB, or 1M elements a data-parallel rank where that is more)");
  command.add_option("--order", words.order, "Dimensions in rank order: neighbours differ in the first")->capture_default_str();
}

Result<training::PipelineKind> pipeline_of(const std::string& words, int vpp) {
  if (words.empty()) return vpp > 1 ? training::PipelineKind::interleaved : training::PipelineKind::one_f_one_b;
  return training::parse_pipeline(words);
}

Result<double> bucket_of(const std::string& words) {
  PEAL_ASSIGN(const Bytes bytes, parse_bytes(words));
  if (bytes.value == 0)
    return fail(ErrorCode::invalid_argument, "--bucket {} leaves no gradient to travel; give --bucket 25M or so", words);
  return static_cast<double>(bytes.value);
}

Result<training::Layout> layout_of(const LayoutWords& words, const training::Model& model, int gpus) {
  training::Layout l = words.layout;
  // Nothing is checked yet: in floating point, where nothing can overflow.
  const double others = 1.0 * std::max(1, l.tp) * std::max(1, l.cp) * std::max(1, l.pp);
  l.dp = words.dp != 0 ? words.dp : std::max(1, static_cast<int>(gpus / others));
  const double batch = 1.0 * std::max(1, l.micro_batch) * std::max(1, l.dp) * (l.pp > 1 ? 4.0 * l.pp : 1);
  l.global_batch = words.global_batch != 0 ? words.global_batch : static_cast<int>(std::min<double>(batch, 1 << 30));
  PEAL_ASSIGN(l.pipeline, pipeline_of(words.pipeline, l.vpp));
  PEAL_ASSIGN(l.recompute, training::parse_recompute(words.recompute));
  PEAL_ASSIGN(l.precision, training::parse_precision(words.precision));
  PEAL_ASSIGN(l.order, training::parse_order(words.order));
  l.overlaps_gradients = !words.has_no_overlap;
  if (!words.bucket.empty()) {
    PEAL_ASSIGN(l.bucket_bytes, bucket_of(words.bucket));
  }
  PEAL_TRY(training::check(model, l, gpus));
  return l;
}

}  // namespace peal::cli
