#include "tensor/ops/permute.h"

#include <algorithm>

#include "tensor/cpu/elementwise.h"

namespace hg {
namespace ops {
namespace {

// The shape and strides of a strided copy, with unit axes dropped and mergeable axes merged.
struct Loop {
  Shape shape, strides;
};

Loop simplified(const Shape& shape, const Shape& strides) {
  Loop loop;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const int last = loop.shape.rank() - 1;
    if (last >= 0 && loop.strides[last] == strides[i] * shape[i]) {
      loop.shape[last] *= shape[i];
      loop.strides[last] = strides[i];
    } else {
      loop.shape.push_back(shape[i]);
      loop.strides.push_back(strides[i]);
    }
  }
  if (loop.shape.rank() == 0) {
    loop.shape.push_back(1);
    loop.strides.push_back(1);
  }
  return loop;
}

std::int64_t offset_of_row(const Loop& loop, std::int64_t row) {
  std::int64_t offset = 0;
  for (int i = loop.shape.rank() - 2; i >= 0; --i) {
    offset += row % loop.shape[i] * loop.strides[i];
    row /= loop.shape[i];
  }
  return offset;
}

template <class T>
void copy_rows(const Loop& loop, const T* x, T* y, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = loop.shape.back(), stride = loop.strides.back();
  for (std::int64_t row = begin; row < end; ++row) {
    const T* from = x + offset_of_row(loop, row);
    T* to = y + row * n;
    if (stride == 1)
      std::copy_n(from, n, to);
    else
      for (std::int64_t j = 0; j < n; ++j) to[j] = from[j * stride];
  }
}

}  // namespace

TensorSpecs Permute::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_rank(*this, in, 0, order.rank());
  TensorSpec spec = in[0].spec();
  unsigned seen = 0;
  for (int i = 0; i < order.rank(); ++i) {
    require(order[i] >= 0 && order[i] < order.rank() && !(seen >> order[i] & 1), name(),
            "{} is no order of the axes of {}", order, in[0]);
    seen |= 1u << order[i];
    spec.shape[i] = in[0].shape()[static_cast<int>(order[i])];
  }
  return {spec};
}

CostParts Permute::cost(In in, In out) const { return elementwise_cost(in, out, 0); }

void Permute::cpu(In in, Out out) const {
  Shape strides = order;
  for (int i = 0; i < order.rank(); ++i) strides[i] = in[0].strides()[static_cast<int>(order[i])];
  const Loop loop = simplified(out[0].shape(), strides);
  const std::int64_t width = loop.shape.back();
  if (out[0].numel() == 0) return;
  dispatch_any(in[0].dtype(), [&]<class T>() {
    cpu::parallel_for(out[0].numel() / width, cpu::row_grain(width),
                      [&](std::int64_t begin, std::int64_t end) {
                        copy_rows(loop, in[0].data<T>(), out[0].data<T>(), begin, end);
                      });
  });
}

Tensors Permute::grad(const GradArgs& args) const {
  Shape inverse = order;
  for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
  return {permute(args.grad_out[0], inverse)};
}

Samples Permute::samples() {
  return {sample(Permute({1, 0}), {S::uniform({3, 197})}),
          sample(Permute({0}), {S::uniform({1})}),
          sample(Permute({2, 0, 3, 1, 4}), {S::uniform({2, 3, 3, 2, 5})}),
          sample(Permute({0, 2, 1, 3}), {S::uniform({2, 3, 4, 5})}),
          sample(Permute({0, 1, 2}), {S::transposed_view({2, 3, 4})}),
          sample(Permute({1, 0}), {S::integers({3, 5}, 9)})};
}

}  // namespace ops

Tensor contiguous(const Tensor& x) {
  if (x.contiguous()) return x;
  Shape order = x.shape();
  for (int i = 0; i < order.rank(); ++i) order[i] = i;
  return permute(x, order);
}

}  // namespace hg
