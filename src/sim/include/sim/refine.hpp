// The coarsest equitable partition of a graph: two vertices are in one class when they had one colour to start with and see, along edges of
// each label, equally many vertices of each class. Colour refinement with the worklist of Paige and Tarjan, "Three partition refinement
// algorithms" (1987): only who sees a change is looked at again, and the largest part of a class that falls apart keeps its number, so the
// whole takes O(edges log vertices). What a vertex sees is compared by a 64-bit sum of hashes. Knows graphs only.
#pragma once

#include <cstdint>
#include <vector>

namespace peal::sim {

class ColouredGraph {
 public:
  using Vertex = std::uint32_t;

  Vertex add(std::uint64_t colour) {
    colours_.push_back(colour);
    return static_cast<Vertex>(colours_.size() - 1);
  }
  void set_colour(Vertex vertex, std::uint64_t colour) { colours_[vertex] = colour; }
  /// `a` sees `b` along an edge of label `from_a`, and `b` sees `a` along one of label `from_b`.
  void join(Vertex a, Vertex b, std::uint32_t from_a, std::uint32_t from_b) {
    ends_.push_back({a, b, from_a});
    ends_.push_back({b, a, from_b});
  }
  std::size_t size() const { return colours_.size(); }

  /// Class of each vertex, numbered from 0 by lowest vertex. Empty as soon as it is known that the first `few` vertices have more than
  /// `most` classes.
  std::vector<std::uint32_t> equitable_classes(std::size_t few = 0, std::size_t most = 0) const;

 private:
  friend class Refinement;
  struct End {
    Vertex from;
    Vertex to;
    std::uint32_t label;
  };
  std::vector<std::uint64_t> colours_;
  std::vector<End> ends_;
};

/// Mixes a value into a hash (splitmix64's finaliser, G. Steele, D. Lea, C. Flood, OOPSLA 2014).
constexpr std::uint64_t hash_with(std::uint64_t hash, std::uint64_t value) noexcept {
  std::uint64_t x = (hash + 0x9e3779b97f4a7c15U) ^ (value * 0xff51afd7ed558ccdU);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace peal::sim
