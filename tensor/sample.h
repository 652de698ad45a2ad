// Samples of an op: parameters with inputs on which it is tested and can be profiled.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace hg {

class Op;

struct SampleInput {
  enum class Kind { uniform, integers, pixels };

  Shape shape;
  Kind kind = Kind::uniform;
  double low = -1, high = 1;  // uniform in [low, high), or integers low .. high-1 (pixels: u8)
  bool transposed = false;    // `shape`, but stored with the last two axes swapped

  static SampleInput uniform(const Shape& shape, double low = -1, double high = 1) {
    return {shape, Kind::uniform, low, high, false};
  }
  static SampleInput integers(const Shape& shape, std::int64_t end) {
    return {shape, Kind::integers, 0, static_cast<double>(end), false};
  }
  static SampleInput pixels(const Shape& shape, std::int64_t end = 256) {
    return {shape, Kind::pixels, 0, static_cast<double>(end), false};
  }
  static SampleInput transposed_view(const Shape& shape) {
    return {shape, Kind::uniform, -1, 1, true};
  }
};

struct Sample {
  std::shared_ptr<const Op> op;
  std::vector<SampleInput> inputs;
  double tolerance = 2e-6;  // largest error of f32 against the f64 reference, relative to the
                            // largest magnitude of that output (and at least 1e-3)
};
using Samples = std::vector<Sample>;

template <class OpType>
Sample sample(OpType op, std::vector<SampleInput> inputs, double tolerance = 2e-6) {
  return {std::make_shared<const OpType>(std::move(op)), std::move(inputs), tolerance};
}

// The same values on every machine; floating-point inputs are f32 values, whatever `dtype` is.
Tensors make_inputs(const Sample& sample, DType dtype);

}  // namespace hg
