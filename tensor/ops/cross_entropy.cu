#include "tensor/cuda/along_axis.h"
#include "tensor/ops/cross_entropy.h"

namespace hg::ops {
namespace {

// A label out of range makes the loss and its gradient NaN: to throw, the host would have to wait.
__device__ bool in_range(std::int64_t label, int classes) { return label >= 0 && label < classes; }

// With d = x - max x: log sum exp(d) - (1 - e) d_label - e mean(d)
struct RowLosses {
  const float* x;
  const std::int64_t* labels;
  float *losses, *logsumexp;
  float smoothing;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float m = cuda::row_max(row, x), log_sum = logf(cuda::row_exp_sum(row, x, m));
    const float shifted = cuda::row_sum(row, [&](int j) { return x[row.at(j)] - m; });
    const float mean = shifted / static_cast<float>(row.n);
    if (!row.leads()) return;
    const std::int64_t label = labels[index];
    const float hit = in_range(label, row.n) ? x[row.first + label] - m : NAN;
    logsumexp[index] = m + log_sum;
    losses[index] = log_sum - (1 - smoothing) * hit - smoothing * mean;
  }
};

// One block adds up all rows, always in the same order.
struct Total {
  const float* losses;
  float* loss;
  float denominator;
  __device__ void operator()(const auto& row, std::int64_t) const {
    const float sum = cuda::row_sum(row, [&](int j) { return losses[j]; });
    if (row.leads()) *loss = sum / denominator;
  }
};

// dx = dy / denominator (exp(x - logsumexp) - t)
struct Backward {
  const float *dy, *x;
  const std::int64_t* labels;
  const float* logsumexp;
  float* dx;
  float smoothing, denominator;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const std::int64_t label = labels[index];
    const float scale = in_range(label, row.n) ? *dy / denominator : NAN;
    const float shift = logsumexp[index], rest = smoothing / static_cast<float>(row.n);
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const float target = j == label ? rest + (1 - smoothing) : rest;
      dx[row.at(j)] = scale * (expf(x[row.at(j)] - shift) - target);
    }
  }
};

float denominator_of(const CrossEntropyOptions& options, std::int64_t rows) {
  return static_cast<float>(options.denominator > 0 ? options.denominator : rows);
}

}  // namespace

void CrossEntropy::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t rows = in[0].dim(0);
  const Tensor losses = Tensor::empty({rows}, DType::f32, Device::cuda);
  const RowLosses each{in[0].data<float>(), in[1].data<std::int64_t>(), losses.data<float>(),
                       out[1].data<float>(), static_cast<float>(options.label_smoothing)};
  cuda::along_rows(rows, in[0].dim(1), each, stream);
  const Total total{losses.data<float>(), out[0].data<float>(), denominator_of(options, rows)};
  cuda::along_rows(1, rows, total, stream);
}

void CrossEntropyBackward::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t rows = in[1].dim(0);
  const Backward body{in[0].data<float>(),          in[1].data<float>(),
                      in[2].data<std::int64_t>(),   in[3].data<float>(),
                      out[0].data<float>(),         static_cast<float>(options.label_smoothing),
                      denominator_of(options, rows)};
  cuda::along_rows(rows, in[1].dim(1), body, stream);
}

}  // namespace hg::ops
