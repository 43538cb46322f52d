// Where ranks stand: positions in each dimension, groups, and the layers of a chunk.
#include <algorithm>
#include <training/layout.hpp>

namespace peal::training {

namespace {

int& part_of(Position& position, Dimension dimension) {
  switch (dimension) {
    case Dimension::tp: return position.tp;
    case Dimension::cp: return position.cp;
    case Dimension::dp: return position.dp;
    case Dimension::pp: return position.pp;
    case Dimension::ep: break;
  }
  return position.ep;
}

/// Number of a rank among the dp x cp ranks that hold the same stage and shard, in rank order.
int number_in_data(const Layout& layout, const Position& position) {
  for (const Dimension dimension : layout.order) {
    if (dimension == Dimension::cp) return position.dp * layout.cp + position.cp;
    if (dimension == Dimension::dp) return position.cp * layout.dp + position.dp;
  }
  return 0;
}

Position with_number(const Layout& layout, Position position, int number) {
  const auto cp = std::find(layout.order.begin(), layout.order.end(), Dimension::cp);
  const bool is_cp_first = std::find(cp, layout.order.end(), Dimension::dp) != layout.order.end();
  position.dp = is_cp_first ? number / layout.cp : number % layout.dp;
  position.cp = is_cp_first ? number % layout.cp : number / layout.dp;
  return position;
}

/// Ranks that stand where `at` does, but for their numbers among the data ranks.
std::vector<int> of_numbers(const Layout& layout, const Position& at, int first, int count, int step) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(rank_of(layout, with_number(layout, at, first + i * step)));
  return ranks;
}

}  // namespace

int Layout::size_of(Dimension dimension) const {
  const int sizes[] = {tp, cp, ep, dp, pp};
  return sizes[static_cast<std::size_t>(dimension)];
}

Position position_of(const Layout& layout, int rank) {
  Position position;
  for (const Dimension dimension : layout.order) {
    part_of(position, dimension) = rank % layout.size_of(dimension);
    rank /= layout.size_of(dimension);
  }
  position.ep = number_in_data(layout, position) % layout.ep;
  return position;
}

int rank_of(const Layout& layout, const Position& position) {
  Position at = position;
  int rank = 0, stride = 1;
  for (const Dimension dimension : layout.order) {
    rank += stride * part_of(at, dimension);
    stride *= layout.size_of(dimension);
  }
  return rank;
}

std::vector<int> group_of(const Layout& layout, Dimension dimension, int rank, bool with_cp) {
  Position at = position_of(layout, rank);
  const int number = number_in_data(layout, at);
  if (dimension == Dimension::ep) return of_numbers(layout, at, number - at.ep, layout.ep, 1);
  if (dimension == Dimension::dp && with_cp) return of_numbers(layout, at, 0, layout.data_ranks(), 1);
  std::vector<int> ranks;
  for (int i = 0; i < layout.size_of(dimension); ++i) {
    part_of(at, dimension) = i;
    ranks.push_back(rank_of(layout, at));
  }
  return ranks;
}

std::vector<int> expert_group_of(const Layout& layout, int rank) {
  const Position at = position_of(layout, rank);
  return of_numbers(layout, at, at.ep, layout.data_ranks() / layout.ep, layout.ep);
}

LayerRange layers_of(const Model& model, const Layout& layout, int chunk) {
  const int chunks = layout.chunks();
  const int layers = layers_in(model);
  const int each = (layers + chunks - 1) / chunks;
  const int missing = each * chunks - layers;
  const bool is_even = missing == 0 || missing > most_ends(model);
  if (is_even) {
    const int larger = layers % chunks;
    return {chunk * (layers / chunks) + std::min(chunk, larger), layers / chunks + (chunk < larger ? 1 : 0)};
  }
  // The embedding stands for a layer of the first chunk, the head (and what is predicted further) for layers of the last.
  const int first = missing > 1 ? 1 : 0;
  const int begin = chunk == 0 ? 0 : chunk * each - first;
  return {begin, each - (chunk == 0 ? first : 0) - (chunk == chunks - 1 ? missing - first : 0)};
}

double largest_bucket(const Layout& layout) {
  if (layout.bucket_bytes > 0) return layout.bucket_bytes;
  return std::max(25e6, 1e6 * layout.data_ranks() * bytes_of(layout.precision));
}

int layers_in(const Model& model) {
  return model.is_transformer() ? model.transformer.layers : static_cast<int>(model.convolutions.size());
}

int most_ends(const Model& model) { return model.is_transformer() ? 2 + model.transformer.extra_predictions : 0; }

}  // namespace peal::training
