#pragma once

#include "tensor/ops/key_update.h"
#include "tensor/reference.h"

namespace hg::ops {

// qkv and the present keys, by image, head, token, channel.
template <class T>
struct KeyUpdateReference {
  const KeyUpdateOptions& o;
  RefIn<T> in;
  std::int64_t batch, n, d;

  KeyUpdateReference(const KeyUpdateOptions& options, RefIn<T> inputs) : o(options), in(inputs) {
    batch = in[0].dim(0), n = in[0].dim(1), d = in[0].dim(2) / (3 * o.heads);
  }
  bool own() const { return in.size() == 1; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  double factor() const { return o.values ? o.beta : scale(); }
  const char* sums() const { return o.values ? "wv" : "wq"; }
  int summed() const { return o.values ? 2 : 0; }  // part of qkv
  int mean() const { return o.values ? 2 : 1; }
  std::int64_t packed(int part, std::int64_t b, std::int64_t h, std::int64_t i,
                      std::int64_t c) const {
    return (((b * n + i) * 3 + part) * o.heads + h) * d + c;
  }
  std::int64_t apart(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return ((b * n + i) * o.heads + h) * d + c;
  }
  T& q(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
    return in[0][packed(0, b, h, i, c)];
  }
  T& key(std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t c) {
    return own() ? in[0][packed(1, b, h, j, c)] : in[1][apart(b, h, j, c)];
  }

  // - |k|^2 / 2 of each key, for Gaussian scores
  std::vector<T> bias(std::int64_t b, std::int64_t h) {
    ref::part("qk");
    std::vector<T> all;
    for (std::int64_t j = 0; j < n && !o.dot_scores; ++j) {
      T sum(0);
      for (std::int64_t c = 0; c < d; ++c) sum += key(b, h, j, c) * key(b, h, j, c);
      all.push_back(T(-0.5 * double(sum)));
    }
    return all;
  }
  // q.k + bias of query i
  std::vector<T> scores(const std::vector<T>& bias, std::int64_t b, std::int64_t h,
                        std::int64_t i) {
    ref::part("qk");
    std::vector<T> row;
    for (std::int64_t j = 0; j < n; ++j) {
      T s(0);
      for (std::int64_t c = 0; c < d; ++c) ref::mac(s, q(b, h, i, c), key(b, h, j, c));
      row.push_back(o.dot_scores ? s : s + bias[j]);
    }
    return row;
  }
};

template <class T>
void head(KeyUpdateReference<T>& x, std::int64_t b, std::int64_t h, RefOut<T> out) {
  const std::vector<T> bias = x.bias(b, h);
  const std::int64_t first = (b * x.o.heads + h) * x.n;
  std::vector<T> mass(static_cast<std::size_t>(x.n), T(0)),
      sums(static_cast<std::size_t>(x.n * x.d), T(0));
  for (std::int64_t i = 0; i < x.n; ++i) {
    std::vector<T> w = x.scores(bias, b, h, i);
    for (T& s : w) s = s * T(x.scale());
    ref::part("weights");
    out[1][first + i] = ref::softmax(w);
    for (std::int64_t j = 0; j < x.n; ++j) mass[j] += w[j];
    ref::part(x.sums());
    for (std::int64_t j = 0; j < x.n; ++j)
      for (std::int64_t c = 0; c < x.d; ++c)
        ref::mac(sums[j * x.d + c], w[j], x.in[0][x.packed(x.summed(), b, h, i, c)]);
  }
  for (std::int64_t j = 0; j < x.n; ++j) {
    ref::part("weights");
    out[2][first + j] = mass[j];
    ref::part(x.sums());
    const T precision(x.o.theta + x.factor() * double(mass[j]));
    for (std::int64_t c = 0; c < x.d; ++c)
      out[0][x.apart(b, h, j, c)] = (T(x.o.theta) * x.in[0][x.packed(x.mean(), b, h, j, c)] +
                                     T(x.factor()) * sums[j * x.d + c]) /
                                    precision;
  }
}

template <class T>
void reference(const KeyUpdate& op, RefIn<T> in, RefOut<T> out) {
  KeyUpdateReference<T> x(op.options, in);
  for (const char* name : {"qk", "weights", x.sums()}) ref::part(name);
  for (std::int64_t b = 0; b < x.batch; ++b)
    for (std::int64_t h = 0; h < x.o.heads; ++h) head(x, b, h, out);
}

template <class T>
void head(KeyUpdateReference<T>& x, std::int64_t b, std::int64_t h, RefIn<T> in, RefOut<T> out) {
  const bool through = !x.o.stop_gradient;
  const std::int64_t first = (b * x.o.heads + h) * x.n;
  const std::vector<T> bias = x.bias(b, h);
  std::vector<T> dn(static_cast<std::size_t>(x.n * x.d), T(0)), dc, grad(dn),
      sums(static_cast<std::size_t>(x.n), T(0));
  ref::part(x.sums());
  for (std::int64_t j = 0; j < x.n; ++j) {
    const double precision = x.o.theta + x.factor() * double(in[3][first + j]);
    T dot(0);
    for (std::int64_t c = 0; c < x.d; ++c) {
      const T g = in[0][x.apart(b, h, j, c)];
      dn[j * x.d + c] = g * T(x.factor() / precision);
      if (through) dot += g * in[1][x.apart(b, h, j, c)];
      T& mean = out[0][x.packed(x.mean(), b, h, j, c)];
      if (x.o.values)
        mean += g * T(x.o.theta / precision);
      else
        mean = g * T(x.o.theta / precision);
    }
    dc.push_back(T(-double(dot) * x.factor() / precision));
  }
  for (std::int64_t i = 0; i < x.n; ++i) {
    std::vector<T> w = x.scores(bias, b, h, i), ds(w.size(), T(0));
    ref::part("weights");
    for (T& s : w) s = ref::exp(s * T(x.scale()) - in[2][first + i]);
    ref::part(x.sums());
    for (std::int64_t j = 0; j < x.n; ++j)
      for (std::int64_t c = 0; c < x.d; ++c) {
        const std::int64_t summed = x.packed(x.summed(), b, h, i, c);
        ref::mac(out[0][summed], w[j], dn[j * x.d + c]);
        if (through) ref::mac(ds[j], dn[j * x.d + c], x.in[0][summed]);
      }
    if (!through) continue;
    ref::part("weights");
    T dot(0);
    for (std::int64_t j = 0; j < x.n; ++j) {
      ds[j] += dc[j];
      dot += w[j] * ds[j];
    }
    for (std::int64_t j = 0; j < x.n; ++j) ds[j] = w[j] * (ds[j] - dot) * T(x.scale());
    ref::part("qk");
    for (std::int64_t j = 0; j < x.n; ++j) {
      if (!x.o.dot_scores) sums[j] += ds[j];
      for (std::int64_t c = 0; c < x.d; ++c) {
        ref::mac(out[0][x.packed(0, b, h, i, c)], ds[j], x.key(b, h, j, c));
        ref::mac(grad[j * x.d + c], ds[j], x.q(b, h, i, c));
      }
    }
  }
  for (std::int64_t j = 0; j < x.n; ++j)
    for (std::int64_t c = 0; c < x.d; ++c) {
      T& g = grad[j * x.d + c];
      ref::part("qk");
      if (through && !x.o.dot_scores) g -= sums[j] * x.key(b, h, j, c);
      if (x.own() && x.o.values) {
        out[0][x.packed(1, b, h, j, c)] = g;
      } else if (x.own()) {
        ref::part(x.sums());
        out[0][x.packed(1, b, h, j, c)] += g;
      } else {
        out[1][x.apart(b, h, j, c)] = g;
      }
    }
}

// in: dk', k', lse, sums of weights, then the forward's inputs
template <class T>
void reference(const KeyUpdateBackward& op, RefIn<T> in, RefOut<T> out) {
  KeyUpdateReference<T> x(op.options, in.subspan(4));
  for (const char* name : {"qk", "weights", x.sums()}) ref::part(name);
  ref::part(x.sums());
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0][i] = T(0);
  ref::part("qk");
  for (std::int64_t i = 0; !x.own() && i < out[1].numel(); ++i) out[1][i] = T(0);
  for (std::int64_t b = 0; b < x.batch; ++b)
    for (std::int64_t h = 0; h < x.o.heads; ++h) head(x, b, h, in, out);
}

}  // namespace hg::ops
