// How long one device computes its shard of a layer: a roofline with efficiencies by shape and by generation of GPU
// (data/constants/training/*.yaml), calibrated on published runs.
//
// A pass is a list of kernels: matrix products, the core of attention, and what reads and writes memory between them. A product of m x n x
// k takes FLOPs / (peak x share of the generation x share of the last wave of tiles x k / (k + k0)), or what its bytes take; between
// kernels lies a gap; and a host that launches them one by one bounds the pass from below. docs/decisions/training-roofline.md.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <memory>
#include <peal/types.hpp>
#include <string>
#include <topology/cluster.hpp>
#include <training/layout.hpp>

namespace peal::training {

/// A GPU as a computer. Peaks are dense, as its data sheet has them.
struct Processor {
  std::string name;        ///< "H100"
  std::string generation;  ///< "hopper"
  int units = 0;           ///< streaming multiprocessors or compute units
  double tflops[5] = {};   ///< by Precision; 0: it has none
  double memory_GBps = 0;
  double memory_bytes = 0;  ///< that a process can have
  std::string source;
};
/// Of the compute devices of a cluster's first machine; fails where there is no figure for it, naming those that have one.
Result<Processor> processor_of(const topology::Cluster& cluster);
/// The longest name of data/constants/training/processors.yaml that `name` begins with, as the catalogue or a driver has it ("NVIDIA H100
/// 80GB HBM3").
Result<Processor> processor_named(std::string_view name);
/// What products of `wanted` are computed in: where the device has no units for them, in the next wider type that it has.
Precision computed_in(const Processor& processor, Precision wanted);

/// A call inside a layer that computing waits for.
struct InnerCall {
  Dimension over = Dimension::tp;
  Collective collective = Collective::all_reduce;
  double bytes = 0;  ///< as nccl-tests counts them (tuning::Call)
  int times = 1;
  double hidden_us = 0;     ///< of each, that goes on beside computing (context parallelism's ring, a host that is behind)
  double hidden_share = 0;  ///< of each call's time the same (async TP moves pieces beside the products)
};

/// What computing waits for of a call that takes `time`.
inline double exposed_us(const InnerCall& call, Nanoseconds time) {
  const double us = time.microseconds() * (1 - call.hidden_share) - call.hidden_us;
  return us > 0 ? us : 0;
}

/// Of one micro batch on one device.
struct PassWork {
  Nanoseconds time;  ///< without calls
  double flops = 0;  ///< that the device does
  std::vector<InnerCall> calls;
};

/// Movable, thread-safe for reading.
class ComputeModel {
 public:
  /// Of a layout that check() has passed.
  /// `software`: whose kernels run (data/constants/training/software.yaml: "megatron-2021", "torchtitan", ...); empty: today's.
  static Result<ComputeModel> make(const Model& model, const Layout& layout, const Processor& processor, std::string_view software = {});
  ComputeModel(ComputeModel&&) noexcept;
  ComputeModel& operator=(ComputeModel&&) noexcept;
  ~ComputeModel();

  /// Layers (of an image network: convolutions) with equal numbers are computed alike; from 0 without gaps, in the order of their first.
  int kind_of(int layer) const;
  PassWork forward(int layer) const;
  PassWork backward_input(int layer) const;  ///< with what is computed anew
  PassWork backward_weight(int layer) const;
  PassWork embedding(bool is_backward) const;
  PassWork head(bool is_backward) const;  ///< final norm, head, loss
  /// Of `elements` parameters on this device, as the optimiser sees them (its shard with ZeRO).
  Nanoseconds optimizer(double elements) const;
  /// Of what a step costs a rank beside all this (data loader, scaler, logging), once a step.
  Nanoseconds step_overhead() const;

 private:
  struct State;
  explicit ComputeModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// One sentence: how far predictions for this GPU's generation and this software were from measured runs, and which (constants' accuracy).
std::string evidence_of(const Processor& processor, const Layout& layout, std::string_view software = {});

}  // namespace peal::training
