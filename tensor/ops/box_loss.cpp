#include "tensor/ops/box_loss.h"

#include "tensor/cpu/parallel.h"
#include "tensor/ops/box_overlap.h"

namespace hg::ops {
namespace {

constexpr std::int64_t kGrain = 256;  // boxes that are worth a thread

// prediction, target and has_box stand at `first` and after it.
void check(const Op& op, In in, int first, const BoxLossOptions& options) {
  expect_rank(op, in, first, 2);
  const std::int64_t boxes = in[first].dim(0);
  expect_shape(op, in, first, {boxes, 4});
  expect_shape(op, in, first + 1, {boxes, 4});
  expect_shape(op, in, first + 2, {boxes});
  require(options.denominator >= 0, op.name(), "negative denominator {}", options.denominator);
}

// What a row's loss is multiplied with: 1 / denominator, 0 where there is no box at all.
double weight_of(const Op& op, const BoxLossOptions& options, const Tensor& has_box) {
  const std::int64_t* has = has_box.data<std::int64_t>();
  std::int64_t boxes = 0;
  for (std::int64_t r = 0; r < has_box.numel(); ++r) {
    require(has[r] == 0 || has[r] == 1, op.name(), "has_box {} of row {}, expected 0 or 1", has[r],
            r);
    boxes += has[r];
  }
  if (options.denominator > 0) boxes = options.denominator;
  return boxes > 0 ? 1.0 / static_cast<double>(boxes) : 0.0;
}

}  // namespace

TensorSpecs BoxLoss::infer(In in) const {
  expect_floats(*this, in, 3, {2});
  check(*this, in, 0, options);
  return {in[0].spec({1}), in[0].spec({in[0].dim(0)})};
}

// Distance 12 (subtract, abs, add); corners 12; overlap and hull 7 an axis; areas 6; two inverses
// with their comparison 4; IoU 1, GIoU 3; the two terms together 4; the sum 1.
CostParts BoxLoss::cost(In in, In out) const {
  return elementwise_cost(in, out, 57 * count(in[2]));
}

void BoxLoss::cpu(In in, Out out) const {
  const std::int64_t rows = in[0].dim(0);
  const double weight = weight_of(*this, options, in[2]);
  const std::int64_t* has = in[2].data<std::int64_t>();
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T *p = in[0].data<T>(), *t = in[1].data<T>();
    T* const iou = out[1].data<T>();
    CachedVector<T> losses(static_cast<std::size_t>(rows));
    cpu::parallel_each(rows, kGrain, [&](std::int64_t r) {
      const boxes::Pair<T> pair(p + 4 * r, t + 4 * r);
      const T loss = boxes::row_loss(p + 4 * r, t + 4 * r, pair);
      losses[r] = has[r] ? loss : T(0);
      iou[r] = pair.iou();
    });
    T sum = 0;
    for (const T loss : losses) sum += loss;
    *out[0].data<T>() = sum * static_cast<T>(weight);
  });
}

// The loss is symmetric: the target's gradient is the prediction's with the two exchanged.
Tensors BoxLoss::grad(const GradArgs& args) const {
  Tensors grads(3);
  const BoxLossBackward backward(options);
  const Tensor &dy = args.grad_out[0], &has_box = args.in[2];
  if (args.needs(0)) grads[0] = run_one(backward, {dy, args.in[0], args.in[1], has_box});
  if (args.needs(1)) grads[1] = run_one(backward, {dy, args.in[1], args.in[0], has_box});
  return grads;
}

Samples BoxLoss::samples() {
  Samples all;
  for (const std::int64_t denominator : {0, 512})
    for (const std::int64_t boxes : {1, 3, 197, 600})
      all.push_back(sample(BoxLoss({denominator}),
                           {S::uniform({boxes, 4}, 0.02, 0.98), S::uniform({boxes, 4}, 0.02, 0.98),
                            S::integers({boxes}, 2)}));
  // Small boxes, mostly apart or inside the other.
  all.push_back(sample(BoxLoss({0}), {S::uniform({197, 4}, 0.05, 0.3),
                                      S::uniform({197, 4}, 0.25, 0.9), S::integers({197}, 2)}));
  all.push_back(
      sample(BoxLoss({8}), {S::uniform({0, 4}), S::uniform({0, 4}), S::integers({0}, 2)}));
  return all;
}

TensorSpecs BoxLossBackward::infer(In in) const {
  expect_floats(*this, in, 4, {3});
  expect_shape(*this, in, 0, {1});
  check(*this, in, 1, options);
  return {in[1].spec()};
}

// As far as the inverses, as forward: 36; IoU 1 and d GIoU by U, I, C 6; an axis 3 comparisons, 2
// products, centre 1, size 4; each of four coordinates subtract, two weights, subtract, scale 5.
CostParts BoxLossBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 83 * count(in[3]));
}

void BoxLossBackward::cpu(In in, Out out) const {
  const double weight = weight_of(*this, options, in[3]);
  const std::int64_t* has = in[3].data<std::int64_t>();
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const T scale = *in[0].data<T>() * static_cast<T>(weight);
    const T *p = in[1].data<T>(), *t = in[2].data<T>();
    T* const dp = out[0].data<T>();
    cpu::parallel_each(in[1].dim(0), kGrain, [&](std::int64_t r) {
      boxes::row_gradient(p + 4 * r, t + 4 * r, has[r] ? scale : T(0), dp + 4 * r);
    });
  });
}

Samples BoxLossBackward::samples() {
  Samples all;
  for (const std::int64_t denominator : {0, 512})
    for (const std::int64_t boxes : {1, 3, 197, 600})
      all.push_back(sample(BoxLossBackward({denominator}),
                           {S::uniform({1}, 50, 100), S::uniform({boxes, 4}, 0.1, 0.9),
                            S::uniform({boxes, 4}, 0.1, 0.9), S::integers({boxes}, 2)}));
  return all;
}

}  // namespace hg::ops
