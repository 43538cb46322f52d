// The space that the planner searches. Private to this room.
#pragma once

#include <training/planner.hpp>

namespace peal::training {

struct Candidate {
  Layout layout;
  double memory = 0;  ///< bytes of the fullest device
  double bound = 0;   ///< seconds
  bool fits = false;
  std::string refusal;               ///< why it cannot be; empty: it divides
  std::optional<StepReport> report;  ///< where it was simulated
};

/// All of them; those that do not divide say why. `order` of the ranks is Layout's own.
std::vector<Candidate> candidates_of(const Model& model, const LayoutSpace& space);

/// A choice that families are made of: "tp 16".
struct Choice {
  std::string name;
  std::function<bool(const Layout&)> makes;
};
/// Every choice that a candidate makes, in the order of the table.
std::vector<Choice> choices_of(const std::vector<Candidate>& candidates);

}  // namespace peal::training
