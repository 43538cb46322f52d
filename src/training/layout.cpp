// What divides and what does not: one sentence a mistake, with the nearest layout that works.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <training/layout.hpp>

namespace peal::training {

namespace {

/// The number from 1 to `most` for which `works`, nearest to `wanted` (of two, the smaller); 1 where there is none.
template <class Works>
std::int64_t nearest_that(std::int64_t wanted, std::int64_t most, Works works) {
  std::int64_t best = 1;
  for (std::int64_t i = 1; i <= most; ++i)
    if (works(i) && std::llabs(i - wanted) < std::llabs(best - wanted)) best = i;
  return best;
}

/// Of a step: chunks times micro batches; of samples at a time.
constexpr std::int64_t kMostPasses = 1 << 20;

auto divides(std::int64_t whole) {
  return [whole](std::int64_t part) { return whole % part == 0; };
}

tl::unexpected<Failure> refuse(std::string message) { return fail(ErrorCode::invalid_argument, "{}", message); }

/// Whether so many GPUs (0: any) can be parted so; a nearest layout should.
bool parts(int gpus, std::int64_t product) { return gpus <= 0 || gpus % product == 0; }

Status check_numbers(const Layout& layout) {
  const std::pair<const char*, int> numbers[] = {{"tp", layout.tp},
                                                 {"cp", layout.cp},
                                                 {"dp", layout.dp},
                                                 {"pp", layout.pp},
                                                 {"ep", layout.ep},
                                                 {"vpp", layout.vpp},
                                                 {"micro-batch", layout.micro_batch},
                                                 {"global-batch", layout.global_batch}};
  for (const auto& [name, value] : numbers)
    if (value < 1) return fail(ErrorCode::invalid_argument, "--{} {} is no number of parts or samples; give 1 or more", name, value);
  if (layout.micro_batch > kMostPasses)
    return fail(ErrorCode::invalid_argument, "--micro-batch {} is more than a device takes at a time; give {} or less", layout.micro_batch,
                kMostPasses);
  const double gpus = static_cast<double>(layout.tp) * layout.cp * layout.dp * layout.pp;
  if (gpus > kMostGpus)
    return fail(ErrorCode::invalid_argument, "tp x cp x dp x pp are {:.0f} GPUs; at most {} are laid out", gpus, kMostGpus);
  if (layout.vpp > kMostPasses / layout.pp)
    return fail(ErrorCode::invalid_argument, "--vpp {} makes more pieces than the {} that a step is simulated with; give {} or less",
                layout.vpp, kMostPasses, kMostPasses / layout.pp);
  if (layout.zero < 0 || layout.zero > 3) return fail(ErrorCode::invalid_argument, "--zero {}: give 0, 1, 2 or 3", layout.zero);
  if (layout.zero_group < 0 || (layout.zero_group > 0 && layout.dp % layout.zero_group != 0))
    return fail(ErrorCode::invalid_argument, "--zero-group {} does not divide --dp {}; the nearest that does is {}", layout.zero_group,
                layout.dp, nearest_that(layout.zero_group, layout.dp, divides(layout.dp)));
  if (layout.zero_group > 0 && layout.zero == 0)
    return fail(ErrorCode::invalid_argument, "--zero-group {} divides nothing without ZeRO; give --zero 1, 2 or 3 too", layout.zero_group);
  if ((layout.bucket_bytes != 0 && !(layout.bucket_bytes >= 1)) || !std::isfinite(layout.bucket_bytes))
    return refuse("a bucket of gradients has no bytes; give --bucket 25M or so");
  std::array<Dimension, 4> sorted = layout.order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != std::array<Dimension, 4>{Dimension::tp, Dimension::cp, Dimension::dp, Dimension::pp})
    return refuse("the order of ranks names each of tp, cp, dp and pp once; give --order tp,cp,dp,pp");
  return {};
}

Status check_gpus(const Layout& layout, int gpus) {
  if (gpus <= 0 || layout.gpus() == gpus) return {};
  const int others = layout.tp * layout.cp * layout.pp;
  std::string mend = fmt::format("; take {} GPUs", layout.gpus());
  if (gpus % others == 0) {
    mend = fmt::format("; --dp {} makes {}", gpus / others, gpus);
  } else {
    const auto pp = nearest_that(layout.pp, gpus, [&](std::int64_t p) { return gpus % (layout.tp * layout.cp * p) == 0; });
    const std::int64_t fixed = layout.tp * layout.cp * pp;
    const auto tp = nearest_that(layout.tp, gpus, [&](std::int64_t t) { return gpus % (t * layout.cp * layout.pp) == 0; });
    if (gpus % fixed == 0) {
      mend = fmt::format("; --pp {} --dp {} makes {}", pp, gpus / fixed, gpus);
    } else if (const std::int64_t rest = tp * layout.cp * layout.pp; gpus % rest == 0) {
      mend = fmt::format("; --tp {} --dp {} makes {}", tp, gpus / rest, gpus);
    }
  }
  return fail(ErrorCode::invalid_argument, "tp {} x cp {} x dp {} x pp {} is {} GPUs, and there are {}{}", layout.tp, layout.cp, layout.dp,
              layout.pp, layout.gpus(), gpus, mend);
}

Status check_images(const Layout& layout) {
  for (const Dimension dimension : {Dimension::tp, Dimension::cp, Dimension::ep, Dimension::pp})
    if (layout.size_of(dimension) > 1)
      return fail(ErrorCode::invalid_argument, "an image network is trained data-parallel alone here; give --dp {} and leave --{} out",
                  layout.gpus(), name_of(dimension));
  if (layout.seq_len != 0) return refuse("an image network has no sequence; leave --seq out");
  if (layout.recompute != Recompute::none) return refuse("an image network's activations are kept here; leave --recompute out");
  if (layout.has_sequence_parallel || layout.overlaps_tensor)
    return refuse("an image network has no tensor-parallel parts; leave --sequence-parallel and --overlap-tensor out");
  if (layout.vpp > 1 || layout.pipeline == PipelineKind::interleaved)
    return refuse("an image network has no stages to interleave; leave --vpp and --pipeline out");
  return {};
}

Status check_tensors(const Transformer& t, const Layout& layout, int gpus) {
  const int tp = layout.tp;
  const auto all = [&](std::int64_t part) {
    return t.heads % part == 0 && (t.kv_heads < 1 || t.kv_heads % part == 0 || part % t.kv_heads == 0) && t.ffn % part == 0 &&
           (t.experts.count == 0 || t.experts.ffn % part == 0);
  };
  if (all(tp)) return {};
  const std::int64_t near =
      nearest_that(tp, t.heads, [&](std::int64_t part) { return all(part) && parts(gpus, part * layout.cp * layout.pp); });
  if (t.heads % tp != 0)
    return fail(ErrorCode::invalid_argument, "{} attention heads do not divide by --tp {}; the nearest that works is --tp {}", t.heads, tp,
                near);
  if (t.kv_heads % tp != 0 && tp % t.kv_heads != 0)
    return fail(ErrorCode::invalid_argument,
                "{} heads of keys and values are neither divided by --tp {} nor copied evenly to its ranks; the nearest that works is "
                "--tp {}",
                t.kv_heads, tp, near);
  return fail(ErrorCode::invalid_argument, "a feed-forward width of {} does not divide by --tp {}; the nearest that works is --tp {}",
              t.ffn % tp != 0 ? t.ffn : t.experts.ffn, tp, near);
}

Status check_sequence(const Model& model, const Layout& layout) {
  const std::int64_t seq = layout.seq_len < 0 ? layout.seq_len : layout.seq_len_of(model);
  if (seq < 1) return fail(ErrorCode::invalid_argument, "--seq {} is no length of a sequence; give 1 or more tokens", seq);
  constexpr std::int64_t kMostTokens = 1 << 30;
  if (seq > kMostTokens) return fail(ErrorCode::invalid_argument, "--seq {} is no length of a sequence; give {} or less", seq, kMostTokens);
  // Rings over a causal sequence give every rank a piece from each end, so that all have as much to compute (Megatron's context
  // parallelism).
  const std::int64_t cuts = (layout.cp > 1 ? 2 * layout.cp : 1) * (layout.has_sequence_parallel ? layout.tp : 1);
  if (seq % cuts == 0) return {};
  const std::int64_t below = seq / cuts * cuts;
  return fail(ErrorCode::invalid_argument, "a sequence of {} tokens is not cut into {} equal pieces ({}{}{}); the nearest is --seq {}", seq,
              cuts, layout.cp > 1 ? "two a rank of --cp" : "", layout.cp > 1 && layout.has_sequence_parallel ? ", " : "",
              layout.has_sequence_parallel ? "one a rank of --tp with sequence parallelism" : "",
              below > 0 && seq - below <= below + cuts - seq ? below : below + cuts);
}

/// Of hybrid sharding: every group holds as many ranks of each share of the experts, or one of some.
Status check_expert_group(const Layout& layout) {
  const auto works = [&](std::int64_t group) { return layout.dp % group == 0 && (group <= layout.ep || group % layout.ep == 0); };
  if (layout.zero_group == 0 || works(layout.zero_group)) return {};
  return fail(ErrorCode::invalid_argument,
              "--zero-group {} does not divide into ranks of equal experts with --ep {}; the nearest that works is --zero-group {}",
              layout.zero_group, layout.ep, nearest_that(layout.zero_group, layout.dp, works));
}

Status check_experts(const Model& model, const Layout& layout) {
  if (layout.ep == 1) return {};
  const int experts = model.transformer.experts.count;
  if (experts == 0)
    return fail(ErrorCode::invalid_argument, "{} has no experts to spread over --ep {}; leave --ep out", model.name, layout.ep);
  const int data = layout.data_ranks();
  const auto works = [&](std::int64_t ep) { return experts % ep == 0 && data % ep == 0; };
  if (works(layout.ep)) return check_expert_group(layout);
  const std::int64_t near = nearest_that(layout.ep, experts, works);
  if (experts % layout.ep != 0)
    return fail(ErrorCode::invalid_argument, "{} experts do not divide by --ep {}; the nearest that works is --ep {}", experts, layout.ep,
                near);
  return fail(ErrorCode::invalid_argument, "--ep {} does not divide the {} ranks of dp {} x cp {}; the nearest that works is --ep {}",
              layout.ep, data, layout.dp, layout.cp, near);
}

Status check_batch(const Layout& layout) {
  const std::int64_t once = static_cast<std::int64_t>(layout.micro_batch) * layout.dp;
  if (layout.global_batch % once == 0) {
    const std::int64_t most = std::max<std::int64_t>(1, kMostPasses / layout.chunks());
    if (layout.micro_batches() <= most) return {};
    return fail(ErrorCode::invalid_argument,
                "{} micro batches are more than the {} that a step is simulated with; give --global-batch {} or less",
                layout.micro_batches(), most, most * once);
  }
  const std::int64_t below = layout.global_batch / once * once;
  const bool is_below = below > 0 && layout.global_batch - below <= below + once - layout.global_batch;
  return fail(ErrorCode::invalid_argument,
              "a global batch of {} is not divided into micro batches of {} on {} data-parallel ranks; the nearest is --global-batch {}",
              layout.global_batch, layout.micro_batch, layout.dp, is_below ? below : below + once);
}

Status check_pipeline(const Layout& layout) {
  const bool is_interleaved = layout.pipeline == PipelineKind::interleaved;
  if (layout.vpp > 1 && !is_interleaved)
    return fail(ErrorCode::invalid_argument, "--vpp {} is of interleaved pipelines, and this is {}; give --pipeline interleaved",
                layout.vpp, name_of(layout.pipeline));
  if (!is_interleaved) return {};
  if (layout.vpp == 1) return refuse("an interleaved pipeline whose stages hold one piece is 1f1b; give --vpp 2, or --pipeline 1f1b");
  if (layout.pp == 1) return refuse("a pipeline of one stage has nothing to interleave; give --pp 2 or more, or --pipeline 1f1b");
  const int micro_batches = layout.micro_batches();
  if (micro_batches % layout.pp == 0) return {};
  const int below = micro_batches / layout.pp * layout.pp;
  const int near = below > 0 ? below : layout.pp;
  return fail(ErrorCode::invalid_argument,
              "{} micro batches do not divide by --pp {}, as interleaved pipelines need (arXiv 2104.04473, 2.2); the nearest is "
              "--global-batch {}",
              micro_batches, layout.pp, near * layout.micro_batch * layout.dp);
}

Status check_layers(const Model& model, const Layout& layout, int gpus) {
  const int layers = layers_in(model);
  const auto missing = [&](std::int64_t chunks) { return (chunks - layers % chunks) % chunks; };
  const auto works = [&](std::int64_t pp) {
    const std::int64_t chunks = pp * layout.vpp;
    if (missing(chunks) == 0 || missing(chunks) > most_ends(model)) return missing(chunks) == 0;
    // At most the first chunk is the embedding alone, and the last the head alone (Llama 3: arXiv 2407.21783, 3.3.2).
    Layout cut = layout;
    cut.pp = static_cast<int>(pp);
    return layers_of(model, cut, cut.chunks() - 1).count >= 0;
  };
  if (works(layout.pp)) return {};
  const std::string each = layout.vpp > 1 ? fmt::format(" x {} pieces", layout.vpp) : std::string();
  if (layers < layout.vpp)
    return fail(ErrorCode::invalid_argument, "{} layers are fewer than --vpp {}; give --vpp {}", layers, layout.vpp, layers);
  const std::int64_t near = nearest_that(layout.pp, (layers + most_ends(model)) / layout.vpp,
                                         [&](std::int64_t pp) { return works(pp) && parts(gpus, pp * layout.tp * layout.cp); });
  if (!works(near))
    return fail(ErrorCode::invalid_argument, "{} layers do not divide into pieces of {} a stage; give --vpp {}", layers, layout.vpp,
                nearest_that(layout.vpp, layers, divides(layers)));
  return fail(ErrorCode::invalid_argument, "{} layers do not divide into {} stages{}; the nearest that works is --pp {}", layers, layout.pp,
              each, near);
}

}  // namespace

Status check(const Model& model, const Layout& layout, int gpus) {
  PEAL_TRY(check_numbers(layout));
  PEAL_TRY(check_gpus(layout, gpus));
  if (!model.is_transformer()) {
    PEAL_TRY(check_images(layout));
    return check_batch(layout);
  }
  PEAL_TRY(check_tensors(model.transformer, layout, gpus));
  PEAL_TRY(check_sequence(model, layout));
  PEAL_TRY(check_experts(model, layout));
  PEAL_TRY(check_batch(layout));
  PEAL_TRY(check_pipeline(layout));
  return check_layers(model, layout, gpus);
}

std::vector<std::string> notes_of(const Layout& layout) {
  std::vector<std::string> notes;
  if (layout.zero == 2 && layout.pp > 1)
    notes.push_back(
        fmt::format("ZeRO 2 in a pipeline divides gradients after every micro batch ({} times a step); DeepSpeed refuses the two together",
                    layout.micro_batches()));
  if (layout.zero == 3 && layout.pp > 1)
    notes.push_back("ZeRO 3 in a pipeline: a stage keeps its parameters and gradients whole from the first micro batch to the last");
  if (layout.pp > 1 && layout.micro_batches() < layout.pp)
    notes.push_back(fmt::format("{} micro batches leave {} of {} stages idle at any time; give a larger --global-batch",
                                layout.micro_batches(), layout.pp - layout.micro_batches(), layout.pp));
  return notes;
}

namespace {

std::string names_of_order(const Layout& layout) {
  std::vector<std::string_view> names;
  for (const Dimension dimension : layout.order) names.push_back(name_of(dimension));
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace

std::string describe(const Layout& layout) {
  std::vector<std::string> words;
  for (const Dimension dimension : {Dimension::tp, Dimension::cp, Dimension::pp, Dimension::dp, Dimension::ep})
    if (layout.size_of(dimension) > 1) words.push_back(fmt::format("{} {}", name_of(dimension), layout.size_of(dimension)));
  if (words.empty()) words.push_back("one rank");
  if (layout.vpp > 1) words.push_back(fmt::format("vpp {}", layout.vpp));
  if (layout.zero > 0)
    words.push_back(fmt::format("ZeRO {}{}", layout.zero, layout.zero_group > 0 ? fmt::format(" in groups of {}", layout.zero_group) : ""));
  if (layout.has_sequence_parallel && layout.tp > 1) words.push_back("sequence parallel");
  words.push_back(fmt::format("micro batch {} of {}", layout.micro_batch, layout.global_batch));
  if (layout.seq_len > 0) words.push_back(fmt::format("{} tokens", layout.seq_len));
  if (layout.pp > 1) words.push_back(std::string(name_of(layout.pipeline)));
  if (layout.recompute != Recompute::none) words.push_back(fmt::format("{} recomputation", name_of(layout.recompute)));
  if (!layout.overlaps_gradients && layout.dp > 1) words.push_back("gradients after the backward pass");
  if (layout.overlaps_tensor && layout.tp > 1) words.push_back("tensor calls overlapped");
  if (layout.order != Layout().order) words.push_back("order " + names_of_order(layout));
  words.push_back(std::string(name_of(layout.precision)));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string options_of(const Layout& layout) {
  const Layout usual;
  std::string text;
  const auto number = [&](const char* name, std::int64_t value, std::int64_t unless) {
    if (value != unless) text += fmt::format("--{} {} ", name, value);
  };
  const auto flag = [&](const char* name, bool is_given) {
    if (is_given) text += fmt::format("--{} ", name);
  };
  number("tp", layout.tp, 0);
  number("cp", layout.cp, 1);
  number("pp", layout.pp, 0);
  number("dp", layout.dp, 0);
  number("ep", layout.ep, 1);
  number("vpp", layout.vpp, 1);
  number("zero", layout.zero, 0);
  number("zero-group", layout.zero_group, 0);
  flag("sequence-parallel", layout.has_sequence_parallel);
  number("micro-batch", layout.micro_batch, 0);
  number("global-batch", layout.global_batch, 0);
  number("seq", layout.seq_len, 0);
  if (layout.pipeline != usual.pipeline) text += fmt::format("--pipeline {} ", name_of(layout.pipeline));
  if (layout.recompute != usual.recompute) text += fmt::format("--recompute {} ", name_of(layout.recompute));
  if (layout.precision != usual.precision) text += fmt::format("--precision {} ", name_of(layout.precision));
  flag("no-overlap", !layout.overlaps_gradients);
  flag("overlap-tensor", layout.overlaps_tensor);
  if (layout.bucket_bytes != usual.bucket_bytes) text += fmt::format("--bucket {:.0f} ", layout.bucket_bytes);
  if (layout.order != usual.order) text += fmt::format("--order {} ", names_of_order(layout));
  text.pop_back();
  return text;
}

Result<std::array<Dimension, 4>> parse_order(std::string_view text) {
  std::array<Dimension, 4> order = {};
  std::size_t count = 0;
  std::string_view left = text;
  while (count < order.size() && !left.empty()) {
    const std::string_view word = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    bool is_known = false;
    for (const Dimension dimension : {Dimension::tp, Dimension::cp, Dimension::dp, Dimension::pp}) {
      if (name_of(dimension) != word) continue;
      is_known = std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), dimension) ==
                 order.begin() + static_cast<std::ptrdiff_t>(count);
      order[count] = dimension;
    }
    if (!is_known) break;
    ++count;
  }
  if (count == order.size() && left.empty() && text.back() != ',') return order;
  return fail(ErrorCode::invalid_argument, "--order {}: name each of tp, cp, dp and pp once, neighbours in rank order first: tp,cp,dp,pp",
              text);
}

}  // namespace peal::training
