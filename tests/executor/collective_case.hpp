// One collective with real numbers: every rank's buffers before the call and what must be in them after it. Elements are i32, so that
// every order of summation gives the same bits. Knows the collectives' meaning only, nothing of how they are done.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <peal/types.hpp>
#include <vector>

namespace peal::test {

struct CollectiveCase {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  int root = 0;
  int peer = 0;             ///< send_recv: the receiver
  std::uint64_t count = 0;  ///< as in <peal/communicator.hpp>; of the v-collectives roughly what a block has
  bool in_place = false;    ///< only where has_in_place()

  using Data = std::vector<std::int32_t>;
  static constexpr std::int32_t kUntouched = -777'777;

  static std::int32_t value(int rank, std::uint64_t i) {
    return static_cast<std::int32_t>((static_cast<std::uint64_t>(rank) * 131 + i * 17) % 2003) - 1000;
  }

  bool has_in_place() const {
    return collective != Collective::all_to_all && collective != Collective::all_to_all_v && collective != Collective::send_recv &&
           collective != Collective::barrier;
  }
  bool is_rooted() const {
    return collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::gather ||
           collective == Collective::scatter || collective == Collective::gather_v || collective == Collective::scatter_v;
  }
  /// In place is a matter of the root alone where the others have one buffer only.
  bool is_in_place_at(int rank) const { return in_place && has_in_place() && (!is_rooted() || rank == root); }

  // Varying counts: block b has count - b % 3 elements (0 for every fifth), two unused elements behind each.
  std::uint64_t block(int b) const {
    return b % 5 == 3 ? 0 : count > static_cast<unsigned>(b % 3) ? count - static_cast<unsigned>(b % 3) : 0;
  }
  std::vector<std::uint64_t> block_counts() const {
    std::vector<std::uint64_t> counts;
    for (int b = 0; b < ranks; ++b) counts.push_back(block(b));
    return counts;
  }
  std::vector<std::uint64_t> block_displs(std::uint64_t gap) const {
    std::vector<std::uint64_t> displs;
    std::uint64_t at = 0;
    for (int b = 0; b < ranks; ++b) {
      displs.push_back(at);
      at += block(b) + gap;
    }
    return displs;
  }
  // all_to_all_v: from i to j.
  std::uint64_t crossing(int from, int to) const {
    return count + static_cast<unsigned>((from * 2 + to) % 4) - (count > 0 && from == to ? 1 : 0);
  }
  std::vector<std::uint64_t> crossing_counts(int rank, bool is_send) const {
    std::vector<std::uint64_t> counts;
    for (int p = 0; p < ranks; ++p) counts.push_back(is_send ? crossing(rank, p) : crossing(p, rank));
    return counts;
  }
  static std::vector<std::uint64_t> packed(const std::vector<std::uint64_t>& counts, std::uint64_t gap) {
    std::vector<std::uint64_t> displs;
    std::uint64_t at = 0;
    for (const std::uint64_t n : counts) {
      displs.push_back(at);
      at += n + gap;
    }
    return displs;
  }

  std::uint64_t send_elements(int rank) const {
    const auto n = static_cast<std::uint64_t>(ranks);
    switch (collective) {
      case Collective::reduce_scatter:
      case Collective::scatter:
      case Collective::all_to_all: return n * count;
      case Collective::barrier: return 0;
      case Collective::all_gather_v:
      case Collective::gather_v: return block(rank);
      case Collective::reduce_scatter_v: return total(block_counts());
      case Collective::scatter_v: return rank == root ? total(block_counts()) : 0;
      case Collective::all_to_all_v: return total(crossing_counts(rank, true));
      default: return count;
    }
  }
  std::uint64_t receive_elements(int rank) const {
    const auto n = static_cast<std::uint64_t>(ranks);
    switch (collective) {
      case Collective::all_gather:
      case Collective::gather:
      case Collective::all_to_all: return n * count;
      case Collective::barrier: return 0;
      case Collective::all_gather_v: return total(block_counts()) + 2 * n;
      case Collective::gather_v: return rank == root ? total(block_counts()) + 2 * n : 0;
      case Collective::reduce_scatter_v:
      case Collective::scatter_v: return block(rank);
      case Collective::all_to_all_v: return total(crossing_counts(rank, false)) + 2 * n;
      default: return count;
    }
  }

  Data send_data(int rank) const {
    Data data(send_elements(rank));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(rank, i);
    return data;
  }

  /// The whole receive buffer after the call, where this rank receives at all; what the call may not touch is kUntouched.
  Data expected(int rank) const {
    Data out(receive_elements(rank), kUntouched);
    const auto sum = [&](std::uint64_t i) {
      std::int32_t s = 0;
      for (int r = 0; r < ranks; ++r) s += value(r, i);
      return s;
    };
    const auto own = static_cast<std::uint64_t>(rank);
    switch (collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = sum(i);
        break;
      case Collective::reduce_scatter:
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = sum(own * count + i);
        break;
      case Collective::reduce_scatter_v: {
        const std::uint64_t begin = block_displs(0)[own];
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = sum(begin + i);
        break;
      }
      case Collective::broadcast:
      case Collective::send_recv:
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(root, i);
        break;
      case Collective::scatter:
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(root, own * count + i);
        break;
      case Collective::all_gather:
      case Collective::gather:
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(static_cast<int>(i / count), i % count);
        break;
      case Collective::all_to_all:
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(static_cast<int>(i / count), own * count + i % count);
        break;
      case Collective::scatter_v: {
        const std::uint64_t begin = block_displs(0)[own];
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(root, begin + i);
        break;
      }
      case Collective::gather_v:
        if (rank != root) break;
        [[fallthrough]];
      case Collective::all_gather_v: {
        const auto displs = block_displs(2);
        for (int b = 0; b < ranks; ++b)
          for (std::uint64_t i = 0; i < block(b); ++i) out[displs[static_cast<std::size_t>(b)] + i] = value(b, i);
        break;
      }
      case Collective::all_to_all_v: {
        const auto displs = packed(crossing_counts(rank, false), 2);
        for (int from = 0; from < ranks; ++from) {
          const std::uint64_t begin = packed(crossing_counts(from, true), 0)[own];
          for (std::uint64_t i = 0; i < crossing(from, rank); ++i) out[displs[static_cast<std::size_t>(from)] + i] = value(from, begin + i);
        }
        break;
      }
      case Collective::barrier: break;
    }
    return out;
  }
  /// What one rank gives as send counts and displacements, receive counts and displacements; empty where it gives none.
  std::array<std::vector<std::uint64_t>, 4> lists(int rank) const {
    if (is_rooted() && rank != root) return {};
    switch (collective) {
      case Collective::all_gather_v:
      case Collective::gather_v: return {{{}, {}, block_counts(), block_displs(2)}};
      case Collective::reduce_scatter_v:
      case Collective::scatter_v: return {{block_counts(), block_displs(0), {}, {}}};
      case Collective::all_to_all_v: {
        const auto to = crossing_counts(rank, true);
        const auto from = crossing_counts(rank, false);
        return {{to, packed(to, 0), from, packed(from, 2)}};
      }
      default: return {};
    }
  }
  bool receives(int rank) const {
    if (collective == Collective::reduce || collective == Collective::gather || collective == Collective::gather_v) return rank == root;
    return collective != Collective::send_recv || rank == peer;
  }

 private:
  static std::uint64_t total(const std::vector<std::uint64_t>& counts) {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : counts) sum += n;
    return sum;
  }
};

/// One rank's memory for a case: two buffers, or one that holds both.
class RankBuffers {
 public:
  RankBuffers(const CollectiveCase& c, int rank) : case_(c), rank_(rank), send_(c.send_data(rank)) {
    if (!c.is_in_place_at(rank)) {
      receive_.assign(c.receive_elements(rank), CollectiveCase::kUntouched);
      send_at_ = send_.data();
      receive_at_ = receive_.data();
      return;
    }
    const auto own = static_cast<std::size_t>(rank);
    const bool gathers_v = c.collective == Collective::all_gather_v || c.collective == Collective::gather_v;
    const bool scatters_v = c.collective == Collective::reduce_scatter_v || c.collective == Collective::scatter_v;
    const bool gathers = gathers_v || c.collective == Collective::all_gather || c.collective == Collective::gather;
    const bool scatters = scatters_v || c.collective == Collective::reduce_scatter || c.collective == Collective::scatter;
    if (gathers) {
      receive_.assign(c.receive_elements(rank), CollectiveCase::kUntouched);
      receive_at_ = receive_.data();
      send_at_ = receive_at_ + (gathers_v ? c.block_displs(2)[own] : own * c.count);
      for (std::size_t i = 0; i < send_.size(); ++i) send_at_[i] = send_[i];
      return;
    }
    send_at_ = send_.data();
    receive_at_ = send_at_;
    if (scatters) receive_at_ += scatters_v ? c.block_displs(0)[own] : own * c.count;
  }
  RankBuffers(RankBuffers&&) = default;

  /// Elements that `move_to` needs.
  std::size_t elements() const { return send_.size() + receive_.size(); }
  /// From now on the buffers lie in `memory`.
  void move_to(std::int32_t* memory) {
    std::int32_t* const rest = std::copy(send_.begin(), send_.end(), memory);
    std::copy(receive_.begin(), receive_.end(), rest);
    const auto lies_in = [](const CollectiveCase::Data& data, const std::int32_t* at) {
      return !data.empty() && !std::less<>{}(at, data.data()) && !std::less<>{}(data.data() + data.size(), at);
    };
    for (std::int32_t** at : {&send_at_, &receive_at_}) {
      if (lies_in(receive_, *at))
        *at = rest + (*at - receive_.data());
      else
        *at = memory + (lies_in(send_, *at) ? *at - send_.data() : 0);
    }
  }

  std::int32_t* send() { return send_at_; }
  std::int32_t* receive() { return receive_at_; }
  /// True when the receive buffer holds what it must, and a separate send buffer is as it was.
  bool is_right() const {
    if (!case_.is_in_place_at(rank_)) {
      const CollectiveCase::Data sent = case_.send_data(rank_);
      if (!std::equal(sent.begin(), sent.end(), send_at_)) return false;
    }
    if (!case_.receives(rank_)) return true;
    const CollectiveCase::Data right = case_.expected(rank_);
    return std::equal(right.begin(), right.end(), receive_at_);
  }

 private:
  CollectiveCase case_;
  int rank_;
  CollectiveCase::Data send_, receive_;
  std::int32_t* send_at_ = nullptr;
  std::int32_t* receive_at_ = nullptr;
};

}  // namespace peal::test
