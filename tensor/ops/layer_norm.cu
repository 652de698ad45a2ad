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

// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - h mean(g h)). For rows that
// no warp can hold.
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

constexpr int kBackwardWarps = 8, kBackwardThreads = kBackwardWarps * cuda::kWarp;
// A block takes so many rows at least, and there are so many blocks at most: what they add to
// dgamma and dbeta is little beside the rows, and still enough of them for a large device.
constexpr std::int64_t kLeastRows = 16, kMostBlocks = 256;
constexpr int kMostPerLane = 32;

// The same, and dgamma and dbeta, in one pass over dy and x: a warp holds a row, kPerLane elements
// a lane. A block takes consecutive rows and leaves its part of dgamma and dbeta.
template <int kPerLane>
__global__ void __launch_bounds__(kBackwardThreads)
    backward_rows(Backward by, cuda::PartSums<2> parts, std::int64_t rows, int width) {
  HG_SHARED(float, partial, [2][kBackwardWarps][cuda::kWarp]);
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const std::int64_t part = blockIdx.x, end = rows * (part + 1) / parts.parts;
  float gamma[kPerLane], dgamma[kPerLane] = {}, dbeta[kPerLane] = {};
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int j = i * cuda::kWarp + lane;
    gamma[i] = j < width ? by.gamma[j] : 0;
  }
  for (std::int64_t row = rows * part / parts.parts + warp; row < end; row += kBackwardWarps) {
    const float mean = by.mean[row], rstd = by.rstd[row];
    float dy[kPerLane], h[kPerLane], sum = 0, dot = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int j = i * cuda::kWarp + lane;
      dy[i] = j < width ? by.dy[row * width + j] : 0;
      h[i] = j < width ? by.x[row * width + j] : mean;
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      h[i] = (h[i] - mean) * rstd;
      dgamma[i] += dy[i] * h[i];
      dbeta[i] += dy[i];
      dy[i] *= gamma[i];
      sum += dy[i];
      dot += dy[i] * h[i];
    }
    const float n = static_cast<float>(width);
    const float a = cuda::over_warp(sum, cuda::Plus{}) / n,
                b = cuda::over_warp(dot, cuda::Plus{}) / n;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int j = i * cuda::kWarp + lane;
      if (j < width) by.dx[row * width + j] = rstd * (dy[i] - a - h[i] * b);
    }
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int j = i * cuda::kWarp + lane;
    __syncthreads();  // the last sums have been read
    partial[0][warp][lane] = dgamma[i];
    partial[1][warp][lane] = dbeta[i];
    __syncthreads();
    if (warp > 1 || j >= width) continue;  // the first warp sums dgamma, the second dbeta
    float sum = partial[warp][0][lane];
    for (int w = 1; w < kBackwardWarps; ++w) sum += partial[warp][w][lane];
    *parts.at(warp, part, j) = sum;
  }
}

// Calls f.operator()<elements per lane>(); the sizes suit widths from 64 to 1024.
void dispatch_width(std::int64_t width, auto&& f) {
  if (width <= 2 * cuda::kWarp) return f.template operator()<2>();
  if (width <= 6 * cuda::kWarp) return f.template operator()<6>();
  if (width <= 12 * cuda::kWarp) return f.template operator()<12>();
  if (width <= 24 * cuda::kWarp) return f.template operator()<24>();
  f.template operator()<kMostPerLane>();
}

void one_pass(const Backward& by, const ParameterGrads& grads, std::int64_t rows,
              CudaStream& stream) {
  const std::int64_t parts = std::clamp(rows / kLeastRows, std::int64_t{1}, kMostBlocks);
  const Tensor kept = Tensor::empty({2, parts, grads.width}, DType::f32, Device::cuda);
  const cuda::PartSums<2> sums{kept.data<float>(), 1, parts, grads.width};
  dispatch_width(grads.width, [&]<int kPerLane>() {
    launch(backward_rows<kPerLane>, dim3(static_cast<unsigned>(parts)), kBackwardThreads, 0, stream,
           by, sums, rows, static_cast<int>(grads.width));
  });
  cuda::sum_parts(grads, sums, stream);
}

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
  const ParameterGrads grads{dy, x, mean, rstd, out[1].data<float>(), out[2].data<float>(), width};
  if (width <= kMostPerLane * cuda::kWarp) return one_pass(body, grads, rows, stream);
  cuda::along_rows(rows, width, body, stream);
  cuda::column_sums(grads, rows, width, stream);
}

}  // namespace hg::ops
