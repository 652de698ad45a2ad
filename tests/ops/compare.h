// Comparing an op's outputs with those of its reference.
#pragma once

#include <string>
#include <vector>

#include "tensor/op.h"
#include "tensor/reference.h"

namespace hg::testing {

std::string describe(const Sample& sample, In in);

template <class T>
std::vector<RefTensor<T>> as_references(In tensors) {
  std::vector<RefTensor<T>> refs;
  for (const Tensor& t : tensors) refs.emplace_back(t);
  return refs;
}

template <class T>
std::vector<RefTensor<T>> empty_references(const TensorSpecs& specs) {
  std::vector<RefTensor<T>> refs;
  for (const TensorSpec& spec : specs) refs.emplace_back(spec);
  return refs;
}

// Shapes, integers exactly, floats within the tolerance (see Sample) or, for f64, 1e-12.
void check_outputs(In out, std::span<const RefTensor<double>> expected, double tolerance);

}  // namespace hg::testing
