#include "tensor/cuda/along_axis.h"
#include "tensor/ops/softmax.h"

namespace hg::ops {
namespace {

struct Forward {
  const float* x;
  float* y;
  template <class Row>
  __device__ void operator()(const Row& row, std::int64_t) const {
    const float m = cuda::row_max(row, x);
    const float inverse = 1.0f / cuda::row_exp_sum(row, x, m);
    for (int j = row.begin(); j < row.n; j += row.step())
      y[row.at(j)] = expf(x[row.at(j)] - m) * inverse;
  }
};

// dx = y (dy - sum_j dy_j y_j)
struct Backward {
  const float *dy, *y;
  float* dx;
  template <class Row>
  __device__ void operator()(const Row& row, std::int64_t) const {
    float dot = 0;
    for (int j = row.begin(); j < row.n; j += row.step()) dot += dy[row.at(j)] * y[row.at(j)];
    dot = row.sum(dot);
    for (int j = row.begin(); j < row.n; j += row.step())
      dx[row.at(j)] = y[row.at(j)] * (dy[row.at(j)] - dot);
  }
};

}  // namespace

void Softmax::cuda(In in, Out out, CudaStream& stream) const {
  cuda::along_axis(in[0], axis, Forward{in[0].data<float>(), out[0].data<float>()}, stream);
}

void SoftmaxBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Backward body{in[0].data<float>(), in[1].data<float>(), out[0].data<float>()};
  cuda::along_axis(in[0], axis, body, stream);
}

}  // namespace hg::ops
