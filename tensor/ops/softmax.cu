#include "tensor/cuda/along_axis.h"
#include "tensor/ops/softmax.h"

namespace hg::ops {
namespace {

template <bool kLog>
struct Forward {
  const float* x;
  float* y;
  __device__ void operator()(const auto& row, std::int64_t) const {
    const float m = cuda::row_max(row, x), sum = cuda::row_exp_sum(row, x, m);
    const float norm = kLog ? logf(sum) : 1.0f / sum;
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const float d = x[row.at(j)] - m;
      y[row.at(j)] = kLog ? d - norm : expf(d) * norm;
    }
  }
};

// dx = y (dy - sum_j dy_j y_j)    log: dx = dy - exp(y) sum_j dy_j
template <bool kLog>
struct Backward {
  const float *dy, *y;
  float* dx;
  __device__ void operator()(const auto& row, std::int64_t) const {
    const float sum = cuda::row_sum(
        row, [&](int j) { return kLog ? dy[row.at(j)] : dy[row.at(j)] * y[row.at(j)]; });
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const float g = dy[row.at(j)], v = y[row.at(j)];
      dx[row.at(j)] = kLog ? g - expf(v) * sum : v * (g - sum);
    }
  }
};

}  // namespace

void Softmax::cuda(In in, Out out, CudaStream& stream) const {
  const float* const x = in[0].data<float>();
  float* const y = out[0].data<float>();
  if (log) return cuda::along_axis(in[0], axis, Forward<true>{x, y}, stream);
  cuda::along_axis(in[0], axis, Forward<false>{x, y}, stream);
}

void SoftmaxBackward::cuda(In in, Out out, CudaStream& stream) const {
  const float *const dy = in[0].data<float>(), *const y = in[1].data<float>();
  float* const dx = out[0].data<float>();
  if (log) return cuda::along_axis(in[0], axis, Backward<true>{dy, y, dx}, stream);
  cuda::along_axis(in[0], axis, Backward<false>{dy, y, dx}, stream);
}

}  // namespace hg::ops
