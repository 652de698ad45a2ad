// One warp or block goes over all boxes, always in the same order; a batch has some hundreds.
#include "tensor/cuda/along_axis.h"
#include "tensor/ops/box_loss.h"
#include "tensor/ops/box_overlap.h"

namespace hg::ops {
namespace {

// What a row's loss is multiplied with: 1 / denominator, 0 where there is no box at all. A has_box
// that is neither 0 nor 1 makes it NaN: to throw, the host would have to wait.
struct Weight {
  const std::int64_t* has;
  float denominator;  // 0: the rows with a box
  __device__ float operator()(const auto& row) const {
    const float boxes = cuda::row_sum(
        row, [&](int r) { return has[r] == 0 || has[r] == 1 ? static_cast<float>(has[r]) : NAN; });
    if (boxes != boxes) return NAN;
    const float divisor = denominator > 0 ? denominator : boxes;
    return divisor > 0 ? 1.0f / divisor : 0.0f;
  }
};

struct Forward {
  const float *p, *t;
  Weight weight;
  float *loss, *iou;
  __device__ void operator()(const auto& row, std::int64_t) const {
    const float sum = cuda::row_sum(row, [&](int r) {
      const boxes::Pair<float> pair(p + 4 * r, t + 4 * r);
      iou[r] = pair.iou();
      return weight.has[r] ? boxes::row_loss(p + 4 * r, t + 4 * r, pair) : 0.0f;
    });
    const float factor = weight(row);
    if (row.leads()) *loss = sum * factor;
  }
};

struct Backward {
  const float *dy, *p, *t;
  Weight weight;
  float* dp;
  __device__ void operator()(const auto& row, std::int64_t) const {
    const float scale = *dy * weight(row);
    for (int r = row.begin(); r < row.n; r += row.step())
      boxes::row_gradient(p + 4 * r, t + 4 * r, weight.has[r] ? scale : 0.0f, dp + 4 * r);
  }
};

Weight weight_of(const BoxLossOptions& options, const Tensor& has_box) {
  return {has_box.data<std::int64_t>(), static_cast<float>(options.denominator)};
}

}  // namespace

void BoxLoss::cuda(In in, Out out, CudaStream& stream) const {
  const Forward body{in[0].data<float>(), in[1].data<float>(), weight_of(options, in[2]),
                     out[0].data<float>(), out[1].data<float>()};
  cuda::along_rows(1, in[0].dim(0), body, stream);
}

void BoxLossBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Backward body{in[0].data<float>(), in[1].data<float>(), in[2].data<float>(),
                      weight_of(options, in[3]), out[0].data<float>()};
  cuda::along_rows(1, in[1].dim(0), body, stream);
}

}  // namespace hg::ops
