#include "tensor/cuda/along_axis.h"
#include "tensor/ops/l2_normalize.h"

namespace hg::ops {
namespace {

// max(norm, eps), NaN for a NaN
__device__ float at_least(float norm, float eps) { return norm <= eps ? eps : norm; }

struct Forward {
  const float* x;
  float *y, *norms;
  float eps;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float norm =
        sqrtf(cuda::row_sum(row, [&](int j) { return x[row.at(j)] * x[row.at(j)]; }));
    const float inverse = 1.0f / at_least(norm, eps);
    for (int j = row.begin(); j < row.n; j += row.step()) y[row.at(j)] = x[row.at(j)] * inverse;
    if (row.leads()) norms[index] = norm;
  }
};

// dx = (dy - y (dy . y)) / norm, or dy / eps where the norm was raised to eps
struct Backward {
  const float *dy, *y, *norms;
  float* dx;
  float eps;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float norm = norms[index], inverse = 1.0f / at_least(norm, eps);
    const float dot = cuda::row_sum(
        row, [&](int j) { return norm <= eps ? 0.0f : dy[row.at(j)] * y[row.at(j)]; });
    for (int j = row.begin(); j < row.n; j += row.step())
      dx[row.at(j)] = (dy[row.at(j)] - y[row.at(j)] * dot) * inverse;
  }
};

}  // namespace

void L2Normalize::cuda(In in, Out out, CudaStream& stream) const {
  const Forward body{in[0].data<float>(), out[0].data<float>(), out[1].data<float>(),
                     static_cast<float>(eps)};
  cuda::along_rows(out[1].numel(), in[0].dim(-1), body, stream);
}

void L2NormalizeBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Backward body{in[0].data<float>(), in[1].data<float>(), in[2].data<float>(),
                      out[0].data<float>(), static_cast<float>(eps)};
  cuda::along_rows(in[2].numel(), in[0].dim(-1), body, stream);
}

}  // namespace hg::ops
