#include <algorithm>
#include <discovery/measure.hpp>
#include <limits>
#include <numeric>

namespace peal::discovery {
namespace {

struct Join {
  double ns = 0;
  std::size_t a = 0, b = 0;
};

/// The joins of single linkage are the edges of a minimum spanning tree (Gower and Ross, 1969, Applied Statistics 18), here by Prim.
std::vector<Join> joins_of(const std::vector<std::vector<double>>& latency_ns) {
  const std::size_t n = latency_ns.size();
  const auto between = [&](std::size_t a, std::size_t b) { return std::min(latency_ns[a][b], latency_ns[b][a]); };
  std::vector<Join> nearest(n, {std::numeric_limits<double>::infinity(), 0, 0});
  std::vector<bool> is_in(n, false);
  std::vector<Join> joins;
  std::size_t last = 0;
  is_in[0] = true;
  for (std::size_t step = 1; step < n; ++step) {
    std::size_t next = n;
    for (std::size_t h = 0; h < n; ++h) {
      if (is_in[h]) continue;
      if (between(last, h) < nearest[h].ns) nearest[h] = {between(last, h), last, h};
      if (next == n || nearest[h].ns < nearest[next].ns) next = h;
    }
    joins.push_back(nearest[next]);
    is_in[next] = true;
    last = next;
  }
  std::sort(joins.begin(), joins.end(), [](const Join& x, const Join& y) { return x.ns < y.ns; });
  return joins;
}

}  // namespace

Racks find_racks(const std::vector<std::vector<double>>& latency_ns) {
  Racks racks;
  const std::size_t n = latency_ns.size();
  if (n == 0) return racks;
  const std::vector<Join> joins = joins_of(latency_ns);
  std::size_t kept = joins.size();
  double widest = kRackGap;
  for (std::size_t i = 1; i < joins.size(); ++i) {
    const double gap = joins[i - 1].ns > 0 ? joins[i].ns / joins[i - 1].ns : 0;
    if (gap < widest) continue;
    widest = gap;
    kept = i;
  }
  std::vector<std::size_t> parent(n);
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root_of = [&](std::size_t h) {
    while (parent[h] != h) h = parent[h] = parent[parent[h]];
    return h;
  };
  for (std::size_t i = 0; i < kept; ++i) parent[root_of(joins[i].a)] = root_of(joins[i].b);
  racks.rack_of.assign(n, -1);
  std::vector<int> number(n, -1);
  for (std::size_t h = 0; h < n; ++h) {
    int& rack = number[root_of(h)];
    if (rack < 0) rack = racks.count++;
    racks.rack_of[h] = rack;
  }
  if (kept > 0) racks.within_ns = joins[kept - 1].ns;
  if (kept < joins.size()) racks.between_ns = joins[kept].ns;
  return racks;
}

}  // namespace peal::discovery
