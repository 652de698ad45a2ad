#include "tensor/op.h"

namespace hg {

void Op::cuda(In, Out, CudaStream&) const { fail(name(), "no CUDA kernel in this build"); }

Tensor GradArgs::grad_or_zeros(int i) const {
  const Tensor& g = grad_out[i];
  if (g.defined()) return g;
  const Tensor& y = out[i];
  return Tensor::zeros(y.shape(), y.dtype(), y.device());
}

Tensors joined(In first, In second) {
  Tensors all;
  all.reserve(first.size() + second.size());
  all.insert(all.end(), first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

std::uint64_t bytes_of(In tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& t : tensors) sum += t.bytes();
  return sum;
}

void expect_inputs(const Op& op, In in, std::size_t count) {
  require(in.size() == count, op.name(), "expected {} inputs, got {}", count, in.size());
}

void expect_float(const Op& op, In in, Indices integers) {
  const Tensor* first = nullptr;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (integers.has(i)) {
      expect_dtype(op, in, static_cast<int>(i), DType::i64);
      continue;
    }
    require(is_float(in[i].dtype()), op.name(), "input {} must be f32 or f64, got {}", i, in[i]);
    if (!first) first = &in[i];
    require(in[i].dtype() == first->dtype(), op.name(), "inputs differ in type: {} and {}", *first,
            in[i]);
  }
}

void expect_floats(const Op& op, In in, std::size_t count, Indices integers) {
  expect_inputs(op, in, count);
  expect_float(op, in, integers);
}

void expect_dtype(const Op& op, In in, int i, DType dtype) {
  require(in[i].dtype() == dtype, op.name(), "input {} must be {}, got {}", i, dtype, in[i]);
}

void expect_shape(const Op& op, In in, int i, const Shape& expected) {
  require(in[i].shape() == expected, op.name(), "input {} must be {}, got {}", i, expected, in[i]);
}

void expect_rank(const Op& op, In in, int i, int rank) {
  require(in[i].rank() == rank, op.name(), "input {} must have {} axes, got {}", i, rank, in[i]);
}

void expect_rank_at_least(const Op& op, In in, int i, int rank) {
  require(in[i].rank() >= rank, op.name(), "input {} must have {} or more axes, got {}", i, rank,
          in[i]);
}

}  // namespace hg
