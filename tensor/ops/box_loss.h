// box_loss of predicted boxes against true ones, both (cx, cy, w, h) in parts of the image's side:
// 5 mean|b - b*| + 2 (1 - GIoU), summed over the rows that have a box and divided by their number.
// GIoU = I/U - (C-U)/C with intersection I, union U, area C of the smallest enclosing box; I/U is 0
// where U < 1e-9, (C-U)/C is 0 where C < 1e-9.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

struct BoxLossOptions {
  // 0: the rows with a box; a group's loss is divided by the number of all boxes of the batch.
  std::int64_t denominator = 0;

  static constexpr double kDistance = 5, kOverlap = 2, kLeastArea = 1e-9;
};

// inputs prediction [B,4], target [B,4], has_box i64 [B] (0: the row counts nothing, else 1);
// outputs loss [1] (0 without any box) and the auxiliary IoU [B], of every row
class BoxLoss final : public OpOf<BoxLoss> {
 public:
  explicit BoxLoss(const BoxLossOptions& options) : options(options) {}
  HG_DECLARE_DIFFERENTIABLE_OP("box_loss");
  Saved saved() const override { return {.in = {0, 1, 2}, .out = {}}; }
  Indices auxiliary_outputs() const override { return {1}; }

  const BoxLossOptions options;
};

// inputs dy [1], prediction, target, has_box; output the prediction's gradient
class BoxLossBackward final : public GradientOp<BoxLossBackward> {
 public:
  explicit BoxLossBackward(const BoxLossOptions& options) : options(options) {}
  HG_DECLARE_OP("box_loss_backward");

  const BoxLossOptions options;
};

}  // namespace ops

struct BoxLosses {
  Tensor loss;  // [1]
  Tensor iou;   // [B], no gradient flows into it
};
inline BoxLosses box_loss(const Tensor& prediction, const Tensor& target, const Tensor& has_box,
                          std::int64_t denominator = 0) {
  const Tensors out = run(ops::BoxLoss({denominator}), {prediction, target, has_box});
  return {out[0], out[1]};
}

}  // namespace hg
