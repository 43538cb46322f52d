#include "kernels.hpp"

#include <algorithm>
#include <cmath>

namespace peal::training {

namespace {

double usual_us(const Kernel& k, const Rates& r) {
  const double gap = k.count * r.gap_us;
  const double reach = k.inner > 0 ? k.inner / (k.inner + r.inner_half) : 1;
  const double moved = k.memory_us / r.memory;
  switch (k.kind) {
    case Kernel::Kind::product: return std::max(k.work_us / (r.product * reach), moved) + gap;
    case Kernel::Kind::low_product: return std::max(k.work_us / (r.low_product * reach), moved) + gap;
    case Kernel::Kind::convolution: return std::max(k.work_us / (r.product * r.convolution * reach), moved) + gap;
    case Kernel::Kind::attention: return std::max(k.work_us / r.forward, moved) + gap;
    case Kernel::Kind::attention_backward: return std::max(k.work_us / r.backward, moved) + gap;
    // A plain count knows one kernel where a framework has two.
    case Kernel::Kind::elementwise: return moved * r.elementwise + 2 * gap;
    case Kernel::Kind::image_elementwise: return moved * r.convolution_elementwise + gap;
    case Kernel::Kind::weights: return moved * r.weights_bytes;
    case Kernel::Kind::cast: return moved * r.cast_bytes + gap;
    case Kernel::Kind::logits: return moved * r.logits_bytes;
  }
  return 0;
}

double kernel_us(const Kernel& k, const Rates& r) { return usual_us(k, r) * r.slowest; }

}  // namespace

Cut cut_of(double m, double n, double k, double batch, const Processor& processor, const KernelFacts& facts, bool has_matrix_units) {
  Cut best;
  double most = 0;
  for (double pieces = 1; pieces <= facts.most_pieces && (pieces == 1 || k / pieces >= facts.least_piece); pieces *= 2)
    for (const Tile& tile : facts.tiles) {
      const double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns) * batch * pieces;
      const double waves = std::ceil(tiles / processor.units);
      const double reach = has_matrix_units ? tile.share : 1;
      const double share = reach * m * n * batch * pieces / (tile.rows * tile.columns * processor.units * waves);
      const double worth = share * (k / pieces) / (k / pieces + facts.prologue);
      if (worth <= most) continue;
      most = worth;
      best = {share, k / pieces};
    }
  return best;
}

double device_us(const Pass& pass, const Rates& rates) {
  double sum = 0;
  for (const Kernel& kernel : pass.kernels) sum += kernel_us(kernel, rates);
  return sum;
}

double host_us(const Pass& pass, const Rates& rates) { return pass.launches * rates.launch_us; }

double pass_us(const Pass& pass, const Rates& rates) {
  // Of many layers in a row, some wait for the host and some do not: a norm of high order is near the larger of the two.
  constexpr double kOrder = 6;
  const double device = device_us(pass, rates), host = host_us(pass, rates);
  const double most = std::max(device, host), least = std::min(device, host);
  return most > 0 ? most * std::pow(1 + std::pow(least / most, kOrder), 1 / kOrder) : 0;
}

PassWork finish(Pass pass, const Rates& rates) {
  PassWork work;
  const double us = pass_us(pass, rates);
  work.time = {us * 1e3};
  work.flops = pass.flops;
  work.calls = std::move(pass.calls);
  int calls = 0, rings = 0;
  for (const InnerCall& call : work.calls) {
    calls += call.times;
    if (call.over == Dimension::cp) rings += call.times;
  }
  const double idle = us - device_us(pass, rates);  // the device waits for the host
  double core = 0;
  for (const Kernel& k : pass.kernels)
    if (k.kind == Kernel::Kind::attention || k.kind == Kernel::Kind::attention_backward) core += kernel_us(k, rates);
  for (InnerCall& call : work.calls) {
    call.hidden_share *= rates.hidden;
    call.hidden_us = idle / calls + (call.over == Dimension::cp ? core / rings : 0);
  }
  return work;
}

}  // namespace peal::training
