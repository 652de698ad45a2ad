// Indices and labels on the CUDA device, which the host cannot check without waiting: what is out
// of range makes NaN of what depends on it, and of nothing else.
#include <doctest/doctest.h>

#include <cmath>

#include "tensor/ops/box_loss.h"
#include "tensor/ops/cos_features.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/quadratic_attention.h"
#include "tensor/ops/triplet.h"
#include "tensor/run.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

Tensor floats(const Shape& shape) {
  return to_device(Tensor::full(shape, 0.5, DType::f32), Device::cuda);
}
Tensor integers(const std::vector<std::int64_t>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return to_device(Tensor::of<std::int64_t>({n}, values), Device::cuda);
}

std::vector<bool> where_nan(const Tensor& t) {
  std::vector<bool> nan;
  for (const float v : to_device(t, Device::cpu).to_vector<float>()) nan.push_back(std::isnan(v));
  return nan;
}

using Flags = std::vector<bool>;

TEST_CASE("an id out of range makes its own row NaN") {
  const Tensor ids = integers({0, 4, -1});
  CHECK(where_nan(gather_rows(floats({4, 2}), ids)) == Flags{0, 0, 1, 1, 1, 1});
  CHECK(where_nan(cos_features(floats({1, 3, 1}), ids, 1, 4)) == Flags{0, 0, 1, 1, 1, 1});
}

TEST_CASE("a query's position out of range makes its own output and gradient NaN") {
  QuadraticOptions options;
  options.apart = options.query_ids = true;
  options.prior = QuadraticOptions::Prior::clipped;
  const ops::QuadraticAttention op(options);
  const Tensor ids = to_device(Tensor::of<std::int64_t>({1, 3}, {0, 5, 1}), Device::cuda);
  const Tensors in{floats({1, 3, 2}), floats({1, 2, 2}), floats({1, 2, 2}), floats({1, 2, 2, 1}),
                   ids};
  const Tensors out = run(op, in), grads{floats({1, 3, 2}), Tensor()};
  CHECK(where_nan(out[0]) == Flags{0, 0, 1, 1, 0, 0});
  CHECK(where_nan(op.grad({in, out, grads, {0}})[0]) == Flags{0, 0, 1, 1, 0, 0});
}

TEST_CASE("a row out of range makes the gradient of its anchor NaN") {
  const Tensor chosen =
      to_device(Tensor::of<std::int64_t>({3, 2}, {1, 2, 0, 3, 1, 0}), Device::cuda);
  const Tensor ds = run_one(ops::TripletBackward(0.2), {floats({1}), floats({3, 3}), chosen});
  CHECK(where_nan(ds) == Flags{0, 0, 0, 1, 1, 1, 0, 0, 0});
}

TEST_CASE("a label or flag out of range makes the loss NaN") {
  CHECK(where_nan(cross_entropy(floats({2, 3}), integers({2, 0}))) == Flags{0});
  CHECK(where_nan(cross_entropy(floats({2, 3}), integers({3, 0}))) == Flags{1});
  const BoxLosses good = box_loss(floats({2, 4}), floats({2, 4}), integers({1, 0}));
  const BoxLosses bad = box_loss(floats({2, 4}), floats({2, 4}), integers({2, 0}));
  CHECK(where_nan(good.loss) == Flags{0});
  CHECK(where_nan(bad.loss) == Flags{1});
  CHECK(where_nan(bad.iou) == Flags{0, 0});
}

}  // namespace
}  // namespace hg
