#pragma once

#include "tensor/ops/linear_attention.h"
#include "tensor/reference.h"

namespace hg::ops {

// Token t, head h, channel c of [B, N, H W].
struct FeatureIndex {
  std::int64_t heads, length, width;
  template <class T>
  FeatureIndex(const RefTensor<T>& x, std::int64_t h)
      : heads(h), length(x.dim(1)), width(x.dim(2) / h) {}
  std::int64_t operator()(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) const {
    return ((b * length + t) * heads + h) * width + c;
  }
};

template <class T>
void head(const LinearAttention& op, RefIn<T> in, RefOut<T> out, std::int64_t b, std::int64_t h) {
  const FeatureIndex f(in[0], op.heads), g(in[1], op.heads), v(in[2], op.heads);
  const std::int64_t head = b * op.heads + h;
  const auto state = [&](std::int64_t c, std::int64_t k) {
    return (head * f.width + c) * v.width + k;
  };
  ref::part("kv");
  for (std::int64_t c = 0; c < f.width; ++c)
    for (std::int64_t k = 0; k < v.width; ++k) {
      T sum(0);
      for (std::int64_t j = 0; j < g.length; ++j)
        ref::mac(sum, in[1][g(b, h, j, c)], in[2][v(b, h, j, k)]);
      out[1][state(c, k)] = sum;
    }
  ref::part("norm");
  if (op.normalised())
    for (std::int64_t c = 0; c < f.width; ++c) {
      T sum(0);
      for (std::int64_t j = 0; j < g.length; ++j) sum += in[1][g(b, h, j, c)];
      out[2][head * f.width + c] = sum;
    }
  for (std::int64_t i = 0; i < f.length; ++i) {
    ref::part("qs");
    for (std::int64_t c = 0; c < f.width; ++c) in[0][f(b, h, i, c)];
    ref::part("norm");
    T den(1);
    if (op.normalised()) {
      T sum(0);
      for (std::int64_t c = 0; c < f.width; ++c)
        sum += in[0][f(b, h, i, c)] * out[2][head * f.width + c];
      out[3][head * f.length + i] = sum;
      den = T(std::max(double(sum), op.floor));
    }
    ref::part("qs");
    for (std::int64_t k = 0; k < v.width; ++k) {
      T sum(0);
      for (std::int64_t c = 0; c < f.width; ++c)
        ref::mac(sum, in[0][f(b, h, i, c)], out[1][state(c, k)]);
      const ref::PerRow once;
      out[0][((b * f.length + i) * op.heads + h) * v.width + k] = sum / den;
    }
  }
}

template <class T>
void reference(const LinearAttention& op, RefIn<T> in, RefOut<T> out) {
  for (const char* name : {"kv", "norm", "qs"}) ref::part(name);
  for (std::int64_t b = 0; b < in[0].dim(0); ++b)
    for (std::int64_t h = 0; h < op.heads; ++h) head(op, in, out, b, h);
}

// in: do, f, g, v, o, S, z, den
template <class T>
void head(const LinearAttentionBackward& op, RefIn<T> in, RefOut<T> out, std::int64_t b,
          std::int64_t h) {
  const std::int64_t heads = op.forward.heads, head = b * heads + h;
  const FeatureIndex f(in[1], heads), g(in[2], heads), v(in[3], heads), o(in[0], heads);
  const bool normalised = op.forward.normalised();
  std::vector<T> ds(static_cast<std::size_t>(f.width * v.width), T(0));
  std::vector<T> dz(static_cast<std::size_t>(f.width), T(0));
  for (std::int64_t i = 0; i < f.length; ++i) {
    std::vector<T> dnum;
    T dden(0);
    ref::part("qs");
    for (std::int64_t k = 0; k < v.width; ++k) dnum.push_back(in[0][o(b, h, i, k)]);
    ref::part("norm");
    if (normalised) {
      const double den = double(in[7][head * f.length + i]);
      const double raised = std::max(den, op.forward.floor);
      for (std::int64_t k = 0; k < v.width; ++k) {
        dden += dnum[k] * in[4][o(b, h, i, k)];
        dnum[k] = dnum[k] / T(raised);
      }
      dden = T(den < op.forward.floor ? 0 : -double(dden) / raised);
    }
    for (std::int64_t c = 0; c < f.width; ++c) {
      ref::part("qs");
      T sum(0);
      for (std::int64_t k = 0; k < v.width; ++k) {
        ref::mac(sum, dnum[k], in[5][(head * f.width + c) * v.width + k]);
        ref::mac(ds[c * v.width + k], in[1][f(b, h, i, c)], dnum[k]);
      }
      ref::part("norm");
      if (normalised) {
        sum += dden * in[6][head * f.width + c];
        dz[c] += dden * in[1][f(b, h, i, c)];
      }
      ref::part("qs");
      out[0][f(b, h, i, c)] = sum;
    }
  }
  for (std::int64_t j = 0; j < g.length; ++j) {
    ref::part("kv");
    for (std::int64_t c = 0; c < f.width; ++c) {
      T sum(0);
      for (std::int64_t k = 0; k < v.width; ++k)
        ref::mac(sum, in[3][v(b, h, j, k)], ds[c * v.width + k]);
      ref::part("norm");
      if (normalised) sum += dz[c];
      ref::part("kv");
      out[1][g(b, h, j, c)] = sum;
    }
    for (std::int64_t k = 0; k < v.width; ++k) {
      T sum(0);
      for (std::int64_t c = 0; c < f.width; ++c)
        ref::mac(sum, in[2][g(b, h, j, c)], ds[c * v.width + k]);
      out[2][v(b, h, j, k)] = sum;
    }
  }
}

template <class T>
void reference(const LinearAttentionBackward& op, RefIn<T> in, RefOut<T> out) {
  for (const char* name : {"kv", "norm", "qs"}) ref::part(name);
  for (std::int64_t b = 0; b < in[0].dim(0); ++b)
    for (std::int64_t h = 0; h < op.forward.heads; ++h) head(op, in, out, b, h);
}

}  // namespace hg::ops
