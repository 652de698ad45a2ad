#include "tensor/cuda/along_axis.h"
#include "tensor/ops/reduce.h"

namespace hg::ops {
namespace {

using Kind = Reduce::Kind;

struct Sum {
  const float* x;
  float* y;
  float divisor;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float sum = cuda::row_sum(row, [&](int j) { return x[row.at(j)]; });
    if (row.leads()) y[index] = sum / divisor;
  }
};

struct Max {
  const float* x;
  float* y;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float m = cuda::row_max(row, x);
    if (row.leads()) y[index] = m;
  }
};

// An infinite maximum is not subtracted: inf - inf would turn a row of -inf into NaN.
struct LogSumExp {
  const float* x;
  float* y;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float m = cuda::row_max(row, x);
    const float shift = fabsf(m) == INFINITY ? 0.0f : m;
    const float sum = cuda::row_exp_sum(row, x, shift);
    if (row.leads()) y[index] = shift + logf(sum);
  }
};

// dx = dy / divisor, repeated
struct Repeat {
  const float* dy;
  float* dx;
  float divisor;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float g = dy[index] / divisor;
    for (int j = row.begin(); j < row.n; j += row.step()) dx[row.at(j)] = g;
  }
};

// The first maximal element gets dy.
struct ToFirstMax {
  const float *dy, *x, *y;
  float* dx;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float g = dy[index];
    const int first = cuda::first_of(row, x, y[index]);
    for (int j = row.begin(); j < row.n; j += row.step()) dx[row.at(j)] = j == first ? g : 0.0f;
  }
};

struct ByShare {
  const float *dy, *x, *y;
  float* dx;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float g = dy[index], shift = y[index];
    for (int j = row.begin(); j < row.n; j += row.step())
      dx[row.at(j)] = g * expf(x[row.at(j)] - shift);
  }
};

float divisor_of(Kind kind, const AxisView& view) {
  return kind == Kind::mean ? static_cast<float>(view.n) : 1.0f;
}

}  // namespace

void Reduce::cuda(In in, Out out, CudaStream& stream) const {
  const AxisView view = around(in[0].shape(), normalize_axis(axis, in[0].shape(), name()));
  const float* const x = in[0].data<float>();
  float* const y = out[0].data<float>();
  if (kind == Kind::max) return cuda::along_axis(view, Max{x, y}, stream);
  if (kind == Kind::logsumexp) return cuda::along_axis(view, LogSumExp{x, y}, stream);
  cuda::along_axis(view, Sum{x, y, divisor_of(kind, view)}, stream);
}

void ReduceBackward::cuda(In in, Out out, CudaStream& stream) const {
  const AxisView view = around(shape, normalize_axis(forward.axis, shape, name()));
  const float* const dy = in[0].data<float>();
  float* const dx = out[0].data<float>();
  if (in.size() == 1)
    return cuda::along_axis(view, Repeat{dy, dx, divisor_of(forward.kind, view)}, stream);
  const float *const x = in[1].data<float>(), *const y = in[2].data<float>();
  if (forward.kind == Kind::max) return cuda::along_axis(view, ToFirstMax{dy, x, y, dx}, stream);
  cuda::along_axis(view, ByShare{dy, x, y, dx}, stream);
}

}  // namespace hg::ops
