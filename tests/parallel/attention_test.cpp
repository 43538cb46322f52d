// Attention whose positions are cut over ranks.
#include <parallel/attention.hpp>

#include <cmath>

#include "small_gpt.hpp"

namespace peal::parallel {
namespace {

// One rank computes, the other makes by hand the calls that training::build_step_graph()'s passes of a layer have over cp: one gather of
// keys and values together, there and again on the way back, and one reduce-scatter of their gradients. Any others would not match.
TEST(Attention, MakesTheCallsThatAreSimulated) {
  constexpr std::int64_t kPositions = 3;
  on_ranks(2, [&](const std::shared_ptr<comm::Core>& world) -> Status {
    Group alone, context(world);
    GptContext c;
    c.shape = small_job({}).model.transformer;
    c.arithmetic = &plain_arithmetic();
    c.tensor = &alone;
    c.context = &context;
    c.positions = kPositions;
    c.look = [] {};
    const std::int64_t width = c.rows() * c.shape.heads * c.shape.head_dim, count = 2 * width;
    if (world->rank() == 1) {
      const Buffer mine = floats(count);
      Buffer all = floats(2 * count), own = floats(count);
      for (int pass = 0; pass < 2; ++pass) PEAL_TRY(context.gather(mine.data(), all.data(), count));
      return context.scatter_sum(all.data(), own.data(), count);
    }
    Buffer qkv = floats(3 * width), output = floats(width), gradient = floats(3 * width);
    for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i));
    AttentionTape tape;
    PEAL_TRY(attend(c, qkv.data(), tape, output.data()));
    return attend_backward(c, output.data(), tape, gradient.data());
  });
}

}  // namespace
}  // namespace peal::parallel
