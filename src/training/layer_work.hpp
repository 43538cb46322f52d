// The kernels of a model's parts under a layout: what one device computes of one micro batch.
#pragma once

#include <training/model.hpp>

#include "kernels.hpp"

namespace peal::training {

/// Of a layout that check() has passed. Keeps references.
class LayerWork {
 public:
  LayerWork(const Model& model, const Layout& layout, const Processor& processor, const Software& software, const KernelFacts& facts);

  Pass forward(int layer) const;
  Pass backward_input(int layer) const;  ///< with what is computed anew
  Pass backward_weight(int layer) const;
  Pass embedding(bool is_backward) const;
  Pass head(bool is_backward) const;
  /// Bytes of an optimiser's step at one byte a parameter, in us at the data sheet's rate.
  double optimizer_us(double elements) const { return elements / (processor_.memory_GBps * 1e3); }

 private:
  struct Product {
    double m = 0, n = 0, k = 0, batch = 1;
    bool is_low = true;  ///< may be of 8 bits
  };
  enum class Part : std::uint8_t { forward, backward_input, backward_weight };

  double peak(bool is_low) const;
  double memory_us(double bytes) const { return bytes / (processor_.memory_GBps * 1e3); }
  std::vector<Product> products(int layer) const;  ///< of the forward pass, without attention's core
  double matrix_elements(int layer) const;         ///< of the products' weights on this device
  void add(Pass& pass, const Product& product, Part part, double count = 1) const;
  void add_elementwise(Pass& pass, double bytes) const;
  void add_core(Pass& pass, bool is_backward) const;
  void add_between(Pass& pass, int layer, bool is_backward) const;
  void add_calls(Pass& pass, int layer, bool is_backward) const;
  void add_forward(Pass& pass, int layer) const;
  void add_selected(Pass& pass, int layer) const;
  Pass convolution(int layer, Part part) const;

  const Model& model_;
  const Transformer& t_;
  const Layout& layout_;
  const Processor& processor_;
  const Software& software_;
  const KernelFacts& facts_;
  double tokens_ = 0;         ///< of a micro batch on this device
  double seq_len_ = 0;        ///< of a sample, over all devices
  double kept_bytes_ = 2;     ///< of an element in products
  double between_bytes_ = 2;  ///< of an element between them
  double sequence_cut_ = 1;   ///< what tensor-parallel ranks divide between products
};

}  // namespace peal::training
