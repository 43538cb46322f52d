// Any layout is refused with one sentence, or its ranks have their places and its step graph finishes; so too the words of an order.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <training/step_graph.hpp>

namespace {

using namespace peal::training;

Model small_model(unsigned bits) {
  Model model;
  model.name = "small";
  Transformer& t = model.transformer;
  t.layers = 1 + static_cast<int>(bits % 24);
  t.hidden = 64;
  t.heads = 8;
  t.kv_heads = bits % 3 == 0 ? 2 : 8;
  t.head_dim = 8;
  t.ffn = 192;
  t.vocab = 100;
  t.seq_len = 48;
  t.ties_embeddings = bits % 2 == 0;
  if (bits % 5 == 0) t.experts = {.count = 8, .chosen = 2, .ffn = 64, .shared = 0, .dense_layers = 1, .every = 1};
  return model;
}

void check_places(const Layout& layout) {
  for (int rank = 0; rank < layout.gpus(); ++rank) {
    if (rank_of(layout, position_of(layout, rank)) != rank) std::abort();
    for (const Dimension d : {Dimension::tp, Dimension::cp, Dimension::ep, Dimension::dp, Dimension::pp}) {
      const std::vector<int> group = group_of(layout, d, rank);
      if (static_cast<int>(group.size()) != layout.size_of(d)) std::abort();
      if (std::find(group.begin(), group.end(), rank) == group.end()) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto order = parse_order({reinterpret_cast<const char*>(data), size});
  if (!order && order.error().message.empty()) std::abort();
  const auto byte = [&](std::size_t i) { return i < size ? static_cast<int>(static_cast<std::int8_t>(data[i])) : 1; };
  const Model model = small_model(static_cast<unsigned>(byte(0)) & 0xffU);
  Layout layout;
  int* const numbers[] = {&layout.tp,  &layout.cp,   &layout.dp,          &layout.pp,         &layout.ep,
                          &layout.vpp, &layout.zero, &layout.micro_batch, &layout.zero_group, &layout.global_batch};
  for (std::size_t i = 0; i < std::size(numbers); ++i) *numbers[i] = byte(i + 1);
  layout.global_batch *= std::max(1, byte(11));
  layout.pipeline = static_cast<PipelineKind>(byte(12) & 3);
  layout.overlaps_gradients = byte(13) % 2 == 0;
  layout.has_sequence_parallel = byte(14) % 2 == 0;
  layout.bucket_bytes = 1000.0 * byte(15);
  if (order) layout.order = *order;
  const peal::Status can = check(model, layout);
  if (!can) return can.error().message.empty() ? std::abort(), 0 : 0;
  if (layout.gpus() > 256 || layout.micro_batches() > 64) return 0;
  check_places(layout);
  const auto graph = build_step_graph(model, layout);
  if (!graph || !can_finish(*graph)) std::abort();
  return 0;
}
