// Compares analytic gradients with central differences in f64.
#pragma once

#include <functional>
#include <string>

#include "tensor/tensor.h"

namespace hg {

struct GradcheckOptions {
  double step = 1e-6;
  double tolerance = 1e-7;         // absolute, on inputs of order 1
  std::int64_t max_elements = 64;  // per input; a larger input is sampled, and checked as a whole
                                   // along random directions
};

struct GradcheckResult {
  bool ok = true;
  double max_error = 0;
  std::int64_t checked = 0;
  std::string worst;  // "input 1, element 17: analytic 0.25, numeric 0.5"
};

using TensorFunction = std::function<Tensors(std::span<const Tensor>)>;

// `f` must be deterministic, built of hg ops; its f64 outputs are weighted with fixed random
// numbers. Integer inputs are passed on and not differentiated. Throws if an f64 input gets no
// gradient.
GradcheckResult gradcheck(const TensorFunction& f, std::span<const Tensor> inputs,
                          const GradcheckOptions& options = {});

}  // namespace hg
