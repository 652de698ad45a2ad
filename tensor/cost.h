// What one call of an op costs, and the convention by which every op counts.
//
// FLOPs: every scalar + - * /, every transcendental, every comparison of a max, min or clamp is 1;
// a multiply-add is 2. flops_mm counts matrix products ((m x k)(k x n): 2mkn) and flops_ew all
// else, by this table per element of the row or array worked on:
//   add, sub, mul, div, scale, bias, exp, log, sqrt, tanh, square, abs, relu 1; elu+1, clamp 2;
//   sigmoid 4; gelu 5; softmax, log-softmax 5; layer norm 7; L2-normalise 4; logsumexp 4;
//   cross-entropy 6; dropout 1; scatter-add 1 per element added; AdamW 14; SGD 4, with momentum 6,
//   Nesterov 8 (weight decay included); gradient norm 2; these three add 1 per further gradient of
//   a parameter, the optimizers 1 if they scale it; patch scores: per pixel luminance 5, histogram
//   1, extremes 2, variance 3, and 1 per bin; box loss 57 a box; gradients of the rest stand beside
//   each op.
// Work done once per row or once per call (1/n, sqrt(var + eps), log of a row's sum) isn't counted,
// nor is the generation of random bits. Each op's reference, run on a counting scalar, must give
// the op's figure exactly.
//
// Bytes: every element an op must touch, once; a fused op counts its outer operands only; a view is
// free.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "tensor/base/error.h"

namespace hg {

struct Cost {
  std::uint64_t flops_mm = 0, flops_ew = 0, bytes_read = 0, bytes_written = 0;

  std::uint64_t flops() const { return flops_mm + flops_ew; }
  std::uint64_t bytes() const { return bytes_read + bytes_written; }
  Cost& operator+=(const Cost& o) {
    flops_mm += o.flops_mm;
    flops_ew += o.flops_ew;
    bytes_read += o.bytes_read;
    bytes_written += o.bytes_written;
    return *this;
  }
  bool operator==(const Cost&) const = default;
};

struct CostPart {
  std::string_view name;  // static storage; "" for an op of one part
  Cost cost;
};

// An op's cost in named parts, so that a fused op's profile stays as fine as its pieces' would be.
class CostParts {
 public:
  CostParts(const Cost& whole) : CostParts({{"", whole}}) {}
  CostParts(std::initializer_list<CostPart> parts) {
    require(parts.size() <= parts_.size(), "cost", "more than {} parts", parts_.size());
    for (const CostPart& part : parts) parts_[size_++] = part;
  }
  const CostPart* begin() const { return parts_.data(); }
  const CostPart* end() const { return parts_.data() + size_; }
  Cost total() const {
    Cost sum;
    for (const CostPart& part : *this) sum += part.cost;
    return sum;
  }

 private:
  std::array<CostPart, 8> parts_{};
  std::size_t size_ = 0;
};

}  // namespace hg
