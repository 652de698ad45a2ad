#include "tensor/op.h"

namespace hg {

void Op::cuda(In, Out, CudaStream&) const { fail(name(), "no CUDA kernel in this build"); }

Tensor GradArgs::grad_or_zeros(int i) const {
  const Tensor& g = grad_out[static_cast<std::size_t>(i)];
  if (g.defined()) return g;
  const Tensor& y = out[static_cast<std::size_t>(i)];
  return Tensor::zeros(y.shape(), y.dtype(), y.device());
}

std::uint64_t bytes_of(In tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& t : tensors) sum += t.bytes();
  return sum;
}

void expect_inputs(const Op& op, In in, std::size_t count) {
  require(in.size() == count, op.name(), "expected {} inputs, got {}", count, in.size());
}

void expect_float(const Op& op, In in) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    require(is_float(in[i].dtype()), op.name(), "input {} must be f32 or f64, got {}", i, in[i]);
    require(in[i].dtype() == in[0].dtype(), op.name(), "inputs differ in type: {} and {}", in[0],
            in[i]);
  }
}

namespace {
const Tensor& input(In in, int i) { return in[static_cast<std::size_t>(i)]; }
}  // namespace

void expect_dtype(const Op& op, In in, int i, DType dtype) {
  require(input(in, i).dtype() == dtype, op.name(), "input {} must be {}, got {}", i, dtype,
          input(in, i));
}

void expect_shape(const Op& op, In in, int i, const Shape& expected) {
  require(input(in, i).shape() == expected, op.name(), "input {} must be {}, got {}", i, expected,
          input(in, i));
}

void expect_rank(const Op& op, In in, int i, int rank) {
  require(input(in, i).rank() == rank, op.name(), "input {} must have {} axes, got {}", i, rank,
          input(in, i));
}

void expect_rank_at_least(const Op& op, In in, int i, int rank) {
  require(input(in, i).rank() >= rank, op.name(), "input {} must have {} or more axes, got {}", i,
          rank, input(in, i));
}

}  // namespace hg
