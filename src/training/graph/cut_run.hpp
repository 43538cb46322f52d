// A cut graph run in one process: every rank takes its operators in order, forward and then backward, and waits as real ranks would.
#pragma once

#include <training/cut_graph.hpp>

#include "evaluate.hpp"

namespace peal::training {

class CutRun {
 public:
  /// `whole` holds the numbers of inputs and parameters, by operator of the graph. Both outlive this.
  CutRun(const Graph& graph, const CutGraph& cut, const std::vector<Numbers>& whole);

  /// Fails where every rank waits, and where calls or messages do not fit one another.
  Status forward();
  /// From the sum of all outputs; after forward().
  Status backward();

  const Numbers& made(std::size_t rank, std::size_t number) const { return made_[rank][number]; }
  const Numbers& gradient(std::size_t rank, std::size_t number) const { return gradient_[rank][number]; }
  int messages() const { return messages_; }

 private:
  enum class Did : std::uint8_t { waits, moved, failed };
  const RankOperator& at(std::size_t rank) const;
  bool is_over(std::size_t rank) const;
  void advance(std::size_t rank);
  std::vector<Operand> operands(std::size_t rank, const RankOperator& op);

  Status walk();
  Result<bool> step(std::size_t rank);
  void compute(std::size_t rank);
  Result<bool> call(std::size_t rank);
  Result<bool> message(std::size_t rank);
  void finish_call(const std::vector<int>& group);
  Status everyone_waits() const;

  const Graph& graph_;
  const CutGraph& cut_;
  const std::vector<Numbers>& whole_;
  std::vector<std::vector<Numbers>> made_, gradient_;  ///< by rank and number
  std::vector<int> next_;                              ///< of each rank
  bool is_backward_ = false;
  int messages_ = 0;
};

/// A part of a whole tensor; Part::Kind::sum has none.
Numbers part_of(const Numbers& whole, const Shape& shape, const Part& part);

}  // namespace peal::training
