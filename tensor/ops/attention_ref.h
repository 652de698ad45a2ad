#pragma once

#include "tensor/ops/attention.h"
#include "tensor/reference.h"

namespace hg::ops {

// Index arithmetic of both layouts: (image, head, token, channel) -> element of q, k, v or o.
struct AttentionIndex {
  std::int64_t packed, batch, heads, n, m, d;

  template <class T>
  AttentionIndex(std::int64_t packed_heads, RefIn<T> qkv) : packed(packed_heads) {
    const Shape& q = qkv[0].shape();
    batch = q[0];
    heads = packed ? packed : q[1];
    n = packed ? q[1] : q[2];
    m = packed ? n : qkv[1].shape()[2];
    d = packed ? q[2] / (3 * packed) : q[3];
  }
  std::int64_t operand(int which, std::int64_t b, std::int64_t h, std::int64_t i,
                       std::int64_t c) const {
    if (packed) return (((b * n + i) * 3 + which) * heads + h) * d + c;
    return ((b * heads + h) * (which == 0 ? n : m) + i) * d + c;
  }
  std::int64_t output(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return packed ? ((b * n + i) * heads + h) * d + c : ((b * heads + h) * n + i) * d + c;
  }
  std::size_t tensor(int which) const { return packed ? 0 : static_cast<std::size_t>(which); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
};

template <class T>
void attention_row(const AttentionIndex& at, std::int64_t b, std::int64_t h, std::int64_t i,
                   RefIn<T> in, RefOut<T> out) {
  auto &q = in[at.tensor(0)], &k = in[at.tensor(1)], &v = in[at.tensor(2)];
  std::vector<T> a(static_cast<std::size_t>(at.m), T(0));
  ref::part("qk");
  for (std::int64_t j = 0; j < at.m; ++j) {
    for (std::int64_t c = 0; c < at.d; ++c)
      ref::mac(a[j], q[at.operand(0, b, h, i, c)], k[at.operand(1, b, h, j, c)]);
    a[j] = a[j] * T(at.scale());
  }
  ref::part("softmax");
  out[1][(b * at.heads + h) * at.n + i] = ref::softmax(a);
  ref::part("av");
  for (std::int64_t c = 0; c < at.d; ++c) {
    T o(0);
    for (std::int64_t j = 0; j < at.m; ++j) ref::mac(o, a[j], v[at.operand(2, b, h, j, c)]);
    out[0][at.output(b, h, i, c)] = o;
  }
}

template <class T>
void reference(const Attention& op, RefIn<T> in, RefOut<T> out) {
  const AttentionIndex at(op.heads, in);
  for (std::int64_t b = 0; b < at.batch; ++b)
    for (std::int64_t h = 0; h < at.heads; ++h)
      for (std::int64_t i = 0; i < at.n; ++i) attention_row(at, b, h, i, in, out);
  for (const char* name : {"qk", "softmax", "av"}) ref::part(name);
}

// in: do, o, lse, then q, k, v
template <class T>
void attention_backward_row(const AttentionIndex& at, std::int64_t b, std::int64_t h,
                            std::int64_t i, RefIn<T> in, RefOut<T> out) {
  const RefIn<T> x = in.subspan(3);
  auto &q = x[at.tensor(0)], &k = x[at.tensor(1)], &v = x[at.tensor(2)];
  auto &dq = out[at.tensor(0)], &dk = out[at.tensor(1)], &dv = out[at.tensor(2)];
  ref::part("softmax");
  T delta(0);
  for (std::int64_t c = 0; c < at.d; ++c)
    delta += in[0][at.output(b, h, i, c)] * in[1][at.output(b, h, i, c)];
  const T lse = in[2][(b * at.heads + h) * at.n + i];
  for (std::int64_t j = 0; j < at.m; ++j) {
    T s(0), g(0);
    ref::part("qk");
    for (std::int64_t c = 0; c < at.d; ++c)
      ref::mac(s, q[at.operand(0, b, h, i, c)], k[at.operand(1, b, h, j, c)]);
    ref::part("av");
    for (std::int64_t c = 0; c < at.d; ++c)
      ref::mac(g, in[0][at.output(b, h, i, c)], v[at.operand(2, b, h, j, c)]);
    ref::part("softmax");
    const T p = ref::exp(s * T(at.scale()) - lse);
    const T ds = p * (g - delta) * T(at.scale());
    ref::part("av");
    for (std::int64_t c = 0; c < at.d; ++c)
      ref::mac(dv[at.operand(2, b, h, j, c)], p, in[0][at.output(b, h, i, c)]);
    ref::part("qk");
    for (std::int64_t c = 0; c < at.d; ++c) {
      ref::mac(dq[at.operand(0, b, h, i, c)], ds, k[at.operand(1, b, h, j, c)]);
      ref::mac(dk[at.operand(1, b, h, j, c)], ds, q[at.operand(0, b, h, i, c)]);
    }
  }
}

template <class T>
void reference(const AttentionBackward& op, RefIn<T> in, RefOut<T> out) {
  const AttentionIndex at(op.heads, in.subspan(3));
  for (auto& grad : out)
    for (std::int64_t i = 0; i < grad.numel(); ++i) {
      const bool is_v = at.packed ? i / (at.heads * at.d) % 3 == 2 : &grad == &out[2];
      ref::part(is_v ? "av" : "qk");
      grad[i] = T(0);
    }
  for (std::int64_t b = 0; b < at.batch; ++b)
    for (std::int64_t h = 0; h < at.heads; ++h)
      for (std::int64_t i = 0; i < at.n; ++i) attention_backward_row(at, b, h, i, in, out);
}

}  // namespace hg::ops
