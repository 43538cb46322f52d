// Rows of tokens on their way to the experts that they chose, and back. Experts lie over the ranks of a group in blocks.
//
//   leaving   a row for each choice of each token, in the order of the experts, then of the tokens
//   arrived   what came to this rank's experts, in the order of the experts, then of the ranks that sent it
#pragma once

#include <parallel/group.hpp>
#include <span>
#include <vector>

namespace peal::parallel {

class TokenExchange {
 public:
  /// `chosen`: the expert of every choice. Ranks tell one another how many rows go to each expert: collective over the group.
  static Result<TokenExchange> make(Group& group, int experts, std::span<const int> chosen);

  /// Where choice number `i` stands among the leaving rows.
  std::int64_t place(std::size_t i) const { return places_[i]; }
  std::int64_t leaving() const { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t arrived() const { return first_.back(); }
  /// Rows of an expert of this rank's, from 0, among those that arrived.
  std::int64_t first_of(std::size_t expert) const { return first_[expert]; }
  std::int64_t count_of(std::size_t expert) const { return first_[expert + 1] - first_[expert]; }

  /// Rows of `width`. Collective.
  Status to_experts(Group& group, std::int64_t width, const std::vector<float>& leaving, std::vector<float>& arrived) const;
  Status to_tokens(Group& group, std::int64_t width, const std::vector<float>& arrived, std::vector<float>& leaving) const;

 private:
  // Rows of one expert from one rank: where they stand as they come, and where among those that arrived.
  struct Run {
    std::int64_t from = 0, to = 0, count = 0;
  };
  std::vector<std::int64_t> places_;
  std::vector<std::int64_t> first_;              // of each own expert; behind the last
  std::vector<std::uint64_t> sends_, receives_;  // rows, by rank
  std::vector<Run> runs_;
  bool comes_in_order_ = false;  // rows stand as they come: there is one rank, or one expert a rank
};

}  // namespace peal::parallel
