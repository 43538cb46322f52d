// What a device is asked to do, and how long that takes.
#pragma once

#include <training/compute.hpp>
#include <vector>

#include "rates.hpp"

namespace peal::training {

struct Kernel {
  enum class Kind : std::uint8_t {
    product,
    low_product,
    convolution,
    attention,
    attention_backward,
    elementwise,
    image_elementwise,
    weights,
    cast,
    logits
  };
  Kind kind = Kind::product;
  double work_us = 0;    ///< at the data sheet's peak and with all units in the last wave of tiles
  double memory_us = 0;  ///< its bytes at the data sheet's memory rate; weights, cast, logits: of one byte each
  double inner = 0;      ///< k of a product
  double count = 1;      ///< how many of them
};

/// Of one micro batch, in order; times are those of Rates.
struct Pass {
  std::vector<Kernel> kernels;
  double launches = 0;  ///< by the host
  double flops = 0;
  std::vector<InnerCall> calls;
};

/// On the device alone.
double device_us(const Pass& pass, const Rates& rates);
/// By the host alone.
double host_us(const Pass& pass, const Rates& rates);
/// The longer of the two, and a little more where they are near each other.
double pass_us(const Pass& pass, const Rates& rates);

/// As others see it, with what of its calls goes on beside computing.
PassWork finish(Pass pass, const Rates& rates);

/// How a library cuts a product of m x n x k, `batch` times: the best of its tile shapes, and of cuts along k where tiles are few.
struct Cut {
  double share = 0;  ///< of the multiprocessors' time that is used
  double inner = 0;  ///< k of a piece
};
Cut cut_of(double m, double n, double k, double batch, const Processor& processor, const KernelFacts& facts, bool has_matrix_units);

}  // namespace peal::training
