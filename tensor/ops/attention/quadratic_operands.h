// The operands of one call of quadratic attention and where they lie, for kernels of the CPU and of
// CUDA.
#pragma once

#include <algorithm>

#include "tensor/op.h"
#include "tensor/ops/attention/quadratic_options.h"
#include "tensor/ops/attention/score_blocks.h"
#include "tensor/ops/attention/token_heads.h"

namespace hg {

struct QuadraticSizes {
  std::int64_t batch, heads, n, m, d, components;  // n queries, m keys
  QuadraticSizes(const QuadraticOptions& o, In in)
      : batch(in[0].dim(0)),
        heads(o.heads),
        n(in[0].dim(1)),
        m(o.apart ? in[1].dim(1) : n),
        d(in[0].dim(2) / (heads * (o.apart ? 1 : 3))),
        components(o.components()) {}
  std::int64_t row() const { return components * m; }  // scores of one query
  std::int64_t block_rows() const { return cpu::block_rows(row()); }
};

// Operand `which` of tensors laid out like the forward's first inputs.
template <class T>
TokenHeads<T> base_operand(const QuadraticOptions& o, In in, int which) {
  return o.apart ? token_heads<T>(in[which], o.heads) : token_heads<T>(in[0], o.heads, which, 3);
}
// The keys of component r, likewise.
template <class T>
TokenHeads<T> key_operand(const QuadraticOptions& o, In in, int r) {
  const int extra = o.replace_keys ? r : r - 1;
  return extra < 0 ? base_operand<T>(o, in, 1)
                   : token_heads<T>(in[o.base_inputs() + extra], o.heads);
}

// A prior by strides, 0 along what it does not depend on.
template <class T>
struct PriorTable {
  const T* data = nullptr;
  std::int64_t head = 0, query = 0, key = 0, component = 0, positions = 0;
  const std::int64_t *ids = nullptr, *query_ids = nullptr;
  std::int64_t ids_batch = 0, query_ids_batch = 0;  // strides; 0: one list for all images
  bool clipped = false;

  PriorTable() = default;
  PriorTable(const QuadraticOptions& o, In in) {
    if (o.prior == QuadraticOptions::Prior::none) return;
    const Tensor& prior = in[o.prior_input()];
    data = prior.data<T>();
    clipped = o.prior == QuadraticOptions::Prior::clipped;
    const Shape& shape = prior.shape();
    const Shape strides = shape.contiguous_strides();
    const auto stride = [&](int axis) { return shape[axis] == 1 ? 0 : strides[axis]; };
    head = stride(0), query = stride(1), key = stride(2), component = stride(3);
    positions = std::max(shape[1], shape[2]);
    if (o.query_ids) {
      const Tensor& list = in[o.inputs() - 1];
      query_ids = list.data<std::int64_t>();
      query_ids_batch = list.dim(1);
    }
    if (!o.ids) return;
    const Tensor& list = in[o.prior_input() + 1];
    ids = list.data<std::int64_t>();
    ids_batch = list.rank() == 2 ? list.dim(1) : 0;
  }
  // Whether a row's priors lie side by side, key after key.
  bool in_order() const { return !ids && key == 1; }
  HG_HOST_DEVICE std::int64_t position(std::int64_t b, std::int64_t token) const {
    return ids ? ids[b * ids_batch + token] : token;
  }
  HG_HOST_DEVICE std::int64_t query_position(std::int64_t b, std::int64_t i) const {
    return query_ids ? query_ids[b * query_ids_batch + i] : position(b, i);
  }
  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j,
                     std::int64_t r) const {
    return h * head + query_position(b, i) * query + position(b, j) * key + r * component;
  }
};

}  // namespace hg
