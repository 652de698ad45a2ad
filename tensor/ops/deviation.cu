#include "tensor/cuda/along_axis.h"
#include "tensor/ops/deviation.h"

namespace hg::ops {
namespace {

// Of each image and channel, over the tokens.
struct Means {
  const float* x;
  float* mean;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float sum = cuda::row_sum(row, [&](int j) { return x[row.at(j)]; });
    if (row.leads()) mean[index] = sum / static_cast<float>(row.n);
  }
};

struct Distances {
  const float *x, *mean;
  float* y;
  std::int64_t tokens;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float* const centre = mean + index / tokens * row.n;
    const float sum = cuda::row_sum(row, [&](int j) {
      const float d = x[row.at(j)] - centre[j];
      return d * d;
    });
    if (row.leads()) y[index] = sum;
  }
};

}  // namespace

void Deviation::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t images = in[0].dim(0), tokens = in[0].dim(1), width = in[0].dim(2);
  const float* const x = in[0].data<float>();
  const Tensor means = Tensor::empty({images, width}, DType::f32, Device::cuda);
  cuda::along_axis(AxisView{images, tokens, width}, Means{x, means.data<float>()}, stream);
  const Distances distances{x, means.data<float>(), out[0].data<float>(), tokens};
  cuda::along_axis(AxisView{images * tokens, width, 1}, distances, stream);
}

}  // namespace hg::ops
