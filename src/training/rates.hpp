// What data/constants/training says, looked up for one GPU generation, one generation of software and one precision.
#pragma once

#include <base/result.hpp>
#include <string>
#include <string_view>
#include <topology/library_constants.hpp>
#include <training/compute.hpp>
#include <training/layout.hpp>
#include <vector>

namespace peal::training {

enum class AttentionKind : std::uint8_t { written_out, triton, flash, cudnn };

/// What a generation of software means by selective recomputation.
enum class Selection : std::uint8_t {
  core,       ///< the attention's core (arXiv 2205.05198)
  layers,     ///< every second layer (torchtitan of 2024)
  operators,  ///< all but attention and every second product (PyTorch's per-operator policy)
};

/// A generation of training software (data/constants/training/software.yaml).
struct Software {
  std::string name;  ///< "megatron-2021"
  AttentionKind attention = AttentionKind::cudnn;
  double width = 1;  ///< of what lies between products, beside the products' type
  Selection selection = Selection::core;
  bool keeps_gates = true;  ///< the product of a gated feed-forward part, which compilers compute anew
  bool has_fused_loss = true;
  bool casts_by_row = false;             ///< fp8 with a scale a row
  double bucket = 0, bucket_a_rank = 0;  ///< gradients of a bucket: elements, or so many for each data-parallel rank where that is more; 0:
                                         ///< as largest_bucket() says
  double gradient = 4;                   ///< bytes of a summed gradient beside parameters of 2
  bool overlaps_tensor = false;          ///< its examples have tensor-parallel calls travel beside the products

  bool is_fused() const { return attention != AttentionKind::written_out; }
};

/// Facts and fitted constants of data/constants/training; read once a process, and there until it ends.
Result<const topology::LibraryConstants*> training_constants();
/// By name; empty: the present generation for the layout. An unknown one fails with those that there are.
Result<Software> software_of(std::string_view name, const Layout& layout);

/// What memory rests on beside shapes (data/constants/training/memory.yaml).
struct HeldBytes {
  double context = 0;       ///< bytes before anything is computed
  double fragments = 0;     ///< share of what comes and goes, under FSDP
  double logits = 0;        ///< bytes a logit
  double plain_logits = 0;  ///< the same where the loss is not fused
};
Result<HeldBytes> held_bytes();
/// One value of data/constants/training by name.
Result<double> training_constant(std::string_view name);

/// A part of a product that one multiprocessor makes at a time.
struct Tile {
  double rows = 0, columns = 0;
  double share = 1;  ///< of the largest tile's rate, where matrix units compute
};

/// Kernels as frameworks launch and libraries cut them (data/constants/training/kernels.yaml).
struct KernelFacts {
  double forward = 0, fused_forward = 0, input = 0, fused_input = 0, weight = 0;  ///< launches of a layer; fused: of its attention
  double end = 0, call = 0, softmax = 0, convolution = 0;                         ///< launches
  double softmax_row = 0, softmax_matrices = 1;                                   ///< that a fused softmax takes
  double masked = 1;                                                              ///< share of tokens that BERT's head sees
  std::vector<Tile> tiles;
  double most_pieces = 1, least_piece = 0, prologue = 0;  ///< of a product cut along k
};
/// Read once a process.
Result<const KernelFacts*> kernel_facts();

/// Places of the constants that one device's time rests on.
struct RateKeys {
  int product = -1, software = -1, precision = -1, low = -1, cast = -1;
  int memory = -1, forward = -1, backward = -1;
  int inner_half = -1, gap = -1, launch = -1, elementwise = -1, weights = -1, step = -1;
  int logits = -1, optimizer = -1, hidden = -1, convolution = -1, convolution_elementwise = -1, variation = -1;
  int gpus = 1;  ///< that wait for one another in every step
};
/// Of a device among those of `layout`.
Result<RateKeys> keys_of(const topology::LibraryConstants& constants, const Processor& processor, const Software& software,
                         const Layout& layout);
/// Places in the order of RateKeys' members, those that are there.
std::vector<int> places_of(const RateKeys& keys);

/// Their values. Shares of a peak are below 1 or a little above; times are microseconds.
struct Rates {
  double product = 1, low_product = 1, memory = 1, forward = 1, backward = 1, inner_half = 0, gap_us = 0, launch_us = 0;
  double elementwise = 1, weights_bytes = 0, step_us = 0, logits_bytes = 0, optimizer_bytes = 0, cast_bytes = 0, hidden = 0;
  double convolution = 1, convolution_elementwise = 1;
  double slowest = 1;  ///< how much longer a kernel takes the slowest device of the run than a usual one
};
Rates rates_of(const topology::LibraryConstants& constants, const RateKeys& keys);

}  // namespace peal::training
