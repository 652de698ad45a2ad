#include "tensor/cuda/along_axis.h"
#include "tensor/cuda/columns.h"
#include "tensor/ops/layer_norm.h"

namespace hg::ops {
namespace {

// The mean first, so that the variance is a sum of squares of small numbers; the row is read from
// the cache the second and third time.
struct Forward {
  const float *x, *gamma, *beta;
  float *y, *mean, *rstd;
  float eps;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const auto n = static_cast<float>(row.n);
    const float m = cuda::row_sum(row, [&](int j) { return x[row.at(j)]; }) / n;
    const float squares = cuda::row_sum(row, [&](int j) {
      const float d = x[row.at(j)] - m;
      return d * d;
    });
    const float s = 1.0f / sqrtf(squares / n + eps);
    for (int j = row.begin(); j < row.n; j += row.step())
      y[row.at(j)] = (x[row.at(j)] - m) * s * gamma[j] + beta[j];
    if (!row.leads()) return;
    mean[index] = m;
    rstd[index] = s;
  }
};

// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - h mean(g h))
struct Backward {
  const float *dy, *x, *gamma, *mean, *rstd;
  float* dx;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float m = mean[index], s = rstd[index], n = static_cast<float>(row.n);
    float sum = 0, dot = 0;
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const float g = dy[row.at(j)] * gamma[j];
      sum += g;
      dot += g * (x[row.at(j)] - m) * s;
    }
    const float a = row.sum(sum) / n, b = row.sum(dot) / n;
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const float h = (x[row.at(j)] - m) * s;
      dx[row.at(j)] = s * (dy[row.at(j)] * gamma[j] - a - h * b);
    }
  }
};

// dgamma = sum of dy h, dbeta = sum of dy over the rows
struct ParameterGrads {
  static constexpr int kSums = 2;
  const float *dy, *x, *mean, *rstd;
  float *dgamma, *dbeta;
  std::int64_t width;
  __device__ void add(std::int64_t row, std::int64_t column, float* sums) const {
    const float g = dy[row * width + column];
    sums[0] += g * (x[row * width + column] - mean[row]) * rstd[row];
    sums[1] += g;
  }
  __device__ void store(std::int64_t column, const float* sums) const {
    dgamma[column] = sums[0];
    dbeta[column] = sums[1];
  }
};

}  // namespace

void LayerNorm::cuda(In in, Out out, CudaStream& stream) const {
  const Forward body{in[0].data<float>(),    in[1].data<float>(),  in[2].data<float>(),
                     out[0].data<float>(),   out[1].data<float>(), out[2].data<float>(),
                     static_cast<float>(eps)};
  cuda::along_rows(out[1].numel(), in[1].numel(), body, stream);
}

void LayerNormBackward::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t rows = in[3].numel(), width = in[2].numel();
  const float *const dy = in[0].data<float>(), *const x = in[1].data<float>();
  const float *const mean = in[3].data<float>(), *const rstd = in[4].data<float>();
  const Backward body{dy, x, in[2].data<float>(), mean, rstd, out[0].data<float>()};
  cuda::along_rows(rows, width, body, stream);
  const ParameterGrads grads{dy, x, mean, rstd, out[1].data<float>(), out[2].data<float>(), width};
  cuda::column_sums(grads, rows, width, stream);
}

}  // namespace hg::ops
