// How many parameters one device of a stage holds. Private to this room.
#pragma once

#include <training/layout.hpp>

namespace peal::training {

/// Elements, of tensor and expert parallel's share, whole as dp ranks without ZeRO hold them.
struct StageParameters {
  double dense = 0;  ///< all but experts
  double experts = 0;
  double embedding = 0;       ///< of `dense`: embedding and head
  double largest_layer = 0;   ///< with its experts
  double largest_matrix = 0;  ///< of a dense layer
  double total() const { return dense + experts; }
};
/// Of a layout that check() has passed.
StageParameters stage_parameters(const Model& model, const Layout& layout, int stage);

}  // namespace peal::training
