#include <sim/refine.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace peal::sim {

using Vertex = ColouredGraph::Vertex;
using Class = std::uint32_t;

class Refinement {
 public:
  explicit Refinement(const ColouredGraph& graph) : graph_(graph), class_of_(graph.size()), place_(graph.size()), first_(graph.size() + 1) {
    lay_out_edges();
    std::unordered_map<std::uint64_t, Class> number;
    for (Vertex v = 0; v < graph.size(); ++v) {
      const auto [it, is_new] = number.try_emplace(graph.colours_[v], static_cast<Class>(members_.size()));
      if (is_new) members_.emplace_back();
      put(v, it->second);
      dirty_.push_back(v);
    }
    is_dirty_.assign(graph.size(), true);
  }

  std::vector<std::uint32_t> run(std::size_t few, std::size_t most) {
    while (!dirty_.empty()) {
      if (few > most && classes_of(few) > most) return {};
      round();
    }
    std::vector<std::uint32_t> numbered(members_.size(), ~0U);
    std::uint32_t next = 0;
    for (Class& c : class_of_) {
      if (numbered[c] == ~0U) numbered[c] = next++;
      c = numbered[c];
    }
    return std::move(class_of_);
  }

 private:
  struct Seen {
    Class of;
    std::uint64_t view;
    Vertex vertex;
    bool operator<(const Seen& o) const { return of != o.of ? of < o.of : view != o.view ? view < o.view : vertex < o.vertex; }
  };

  std::size_t classes_of(std::size_t few) const {
    std::vector<bool> is_seen(members_.size());
    std::size_t seen = 0;
    for (std::size_t v = 0; v < few; ++v)
      if (!is_seen[class_of_[v]]) {
        is_seen[class_of_[v]] = true;
        ++seen;
      }
    return seen;
  }

  void lay_out_edges() {
    for (const auto& end : graph_.ends_) ++first_[end.from + 1];
    for (std::size_t v = 0; v < graph_.size(); ++v) first_[v + 1] += first_[v];
    edges_.resize(graph_.ends_.size());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (const auto& end : graph_.ends_) edges_[next[end.from]++] = {end.to, end.label};
  }

  std::uint64_t view_of(Vertex v) const {
    std::uint64_t view = 0;
    for (std::size_t e = first_[v]; e < first_[v + 1]; ++e) view += hash_with(edges_[e].second, class_of_[edges_[e].first]);
    return view;
  }

  void put(Vertex v, Class c) {
    class_of_[v] = c;
    place_[v] = static_cast<std::uint32_t>(members_[c].size());
    members_[c].push_back(v);
  }
  void take_out(Vertex v) {
    std::vector<Vertex>& list = members_[class_of_[v]];
    place_[list.back()] = place_[v];
    std::swap(list[place_[v]], list.back());
    list.pop_back();
  }

  // All views first, as the classes stand; then classes fall apart; then who sees a change is dirty.
  void round() {
    std::vector<Seen> seen;
    seen.reserve(dirty_.size());
    for (Vertex v : dirty_) seen.push_back({class_of_[v], view_of(v), v});
    std::sort(seen.begin(), seen.end());
    std::vector<std::pair<std::size_t, std::uint64_t>> bases;  // where the seen of a class begin, and the view of its others
    for (std::size_t i = 0; i < seen.size();) {
      std::size_t end = i;
      while (end < seen.size() && seen[end].of == seen[i].of) ++end;
      bases.emplace_back(i, view_of_others(seen[i].of, end - i));
      i = end;
    }
    for (Vertex v : dirty_) is_dirty_[v] = false;
    dirty_.clear();
    changed_.clear();
    for (std::size_t b = 0; b < bases.size(); ++b) {
      const std::size_t end = b + 1 < bases.size() ? bases[b + 1].first : seen.size();
      split(seen, bases[b].first, end, bases[b].second);
    }
    for (Vertex v : changed_)
      for (std::size_t e = first_[v]; e < first_[v + 1]; ++e) {
        const Vertex w = edges_[e].first;
        if (is_dirty_[w] || members_[class_of_[w]].size() == 1) continue;
        is_dirty_[w] = true;
        dirty_.push_back(w);
      }
  }

  // The view that all members of a class share that are not dirty; of no use where all are.
  std::uint64_t view_of_others(Class c, std::size_t dirty) const {
    if (members_[c].size() == dirty) return 0;
    for (Vertex v : members_[c])
      if (!is_dirty_[v]) return view_of(v);
    return 0;
  }

  void split(const std::vector<Seen>& seen, std::size_t begin, std::size_t end, std::uint64_t base) {
    const Class c = seen[begin].of;
    const bool has_others = members_[c].size() > end - begin;
    std::vector<std::vector<Vertex>> parts;
    for (std::size_t i = begin; i < end;) {
      std::size_t stop = i;
      while (stop < end && seen[stop].view == seen[i].view) ++stop;
      const bool stays = has_others ? seen[i].view == base : i == begin;
      if (!stays) {
        std::vector<Vertex>& part = parts.emplace_back();
        for (std::size_t k = i; k < stop; ++k) {
          take_out(seen[k].vertex);
          part.push_back(seen[k].vertex);
        }
      }
      i = stop;
    }
    if (parts.empty()) return;
    // The largest part has the old number, so that the fewest change theirs.
    auto largest = std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (largest->size() > members_[c].size()) {
      std::vector<Vertex> others = std::move(members_[c]);
      members_[c].clear();
      for (Vertex v : *largest) put(v, c);
      *largest = std::move(others);
    }
    for (const std::vector<Vertex>& part : parts) {
      members_.emplace_back();
      for (Vertex v : part) {
        put(v, static_cast<Class>(members_.size() - 1));
        changed_.push_back(v);
      }
    }
  }

  const ColouredGraph& graph_;
  std::vector<Class> class_of_;
  std::vector<std::uint32_t> place_;  // in members_
  std::vector<std::vector<Vertex>> members_;
  std::vector<std::size_t> first_;
  std::vector<std::pair<Vertex, std::uint32_t>> edges_;
  std::vector<Vertex> dirty_;
  std::vector<char> is_dirty_;
  std::vector<Vertex> changed_;
};

std::vector<std::uint32_t> ColouredGraph::equitable_classes(std::size_t few, std::size_t most) const {
  return Refinement(*this).run(few, most);
}

}  // namespace peal::sim
