#include "tensor/cuda/along_axis.h"
#include "tensor/ops/deviation.h"

namespace hg::ops {
namespace {

// Of each image and channel, over the tokens.
struct Means {
  const float* x;
  float* mean;
  template <class Row>
  __device__ void operator()(const Row& row, std::int64_t index) const {
    float sum = 0;
    for (int j = row.begin(); j < row.n; j += row.step()) sum += x[row.at(j)];
    sum = row.sum(sum);
    if (row.leads()) mean[index] = sum / static_cast<float>(row.n);
  }
};

struct Distances {
  const float *x, *mean;
  float* y;
  std::int64_t tokens;
  template <class Row>
  __device__ void operator()(const Row& row, std::int64_t index) const {
    const float* const centre = mean + index / tokens * row.n;
    float sum = 0;
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const float d = x[row.at(j)] - centre[j];
      sum += d * d;
    }
    sum = row.sum(sum);
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
