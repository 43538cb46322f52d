// The linear program of mixture.hpp, whatever the shapes are. Private to this room.
#pragma once

#include <tuning/mixture.hpp>

namespace peal::tuning {

inline constexpr double kTiny = 1e-9;  // what rounding makes of 0

/// Makes shapes for prices of wires.
class ShapeFinder {
 public:
  virtual ~ShapeFinder() = default;
  /// One entry a crossing.
  virtual std::vector<std::uint16_t> wires_of(const Shape& shape) const = 0;
  /// Cheap ones, without proof.
  virtual std::vector<Shape> cheap_ones(const std::vector<double>& price) = 0;
  /// The cheapest, proved.
  virtual Shape cheapest(const std::vector<double>& price) = 0;
  /// Additions that cheapest() takes.
  virtual double work() const = 0;
  /// True where cheap_ones() holds a cheapest one.
  virtual bool is_sure_of_cheap_ones() const { return false; }
  /// The same one the other way, where there is such a thing: wirings are mostly symmetric.
  virtual Shape reversed(Shape) const { return {}; }
};

/// `bound` is 0 where no proof was made.
Mixture mix(const Wiring& wiring, ShapeFinder& finder);

/// True where every rank has a way to every other.
bool has_all_ways(const Wiring& wiring);
/// What a way costs from each rank to each, at a * ranks + b.
std::vector<double> cost_of_ways(const Wiring& wiring, const std::vector<double>& price);

}  // namespace peal::tuning
