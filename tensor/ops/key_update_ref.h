#pragma once

#include "tensor/ops/key_update.h"
#include "tensor/ops/quadratic_attention_ref.h"

namespace hg::ops {

// The scores of attention on the present keys, and what a step on keys or values sums up.
template <class T>
struct KeyUpdateReference : QuadraticReference<T> {
  const KeyUpdateOptions& update;

  KeyUpdateReference(const KeyUpdateOptions& options, RefIn<T> inputs)
      : QuadraticReference<T>(options.scores(inputs.size() > 1), inputs), update(options) {}
  bool own() const { return this->in.size() == 1; }
  double factor() const {
    return update.values ? update.beta : 1 / std::sqrt(static_cast<double>(this->d));
  }
  const char* sums() const { return update.values ? "wv" : "wq"; }
  int summed() const { return update.values ? 2 : 0; }  // part of qkv
  int mean() const { return update.values ? 2 : 1; }
  std::int64_t first() const { return (this->b * this->o.heads + this->h) * this->n; }
  void for_heads(auto head) {
    for (this->b = 0; this->b < this->batch; ++this->b)
      for (this->h = 0; this->h < this->o.heads; ++this->h) head();
  }
};

template <class T>
void head(KeyUpdateReference<T>& x, RefOut<T> out) {
  const std::vector<T> bias = x.key_bias();
  const std::int64_t first = x.first();
  std::vector<T> mass(static_cast<std::size_t>(x.n), T(0)),
      sums(static_cast<std::size_t>(x.n * x.d), T(0));
  for (x.i = 0; x.i < x.n; ++x.i) {
    std::vector<T> w = x.scores(bias);
    for (T& s : w) s = s * x.scale(0);
    ref::part("weights");
    out[1][first + x.i] = ref::softmax(w);
    for (std::int64_t j = 0; j < x.n; ++j) mass[j] += w[j];
    ref::part(x.sums());
    for (std::int64_t j = 0; j < x.n; ++j)
      for (std::int64_t c = 0; c < x.d; ++c)
        ref::mac(sums[j * x.d + c], w[j], x.in[0][x.at(x.summed(), x.i, c)]);
  }
  for (std::int64_t j = 0; j < x.n; ++j) {
    ref::part("weights");
    out[2][first + j] = mass[j];
    ref::part(x.sums());
    const T precision(x.update.theta + x.factor() * double(mass[j]));
    for (std::int64_t c = 0; c < x.d; ++c)
      out[0][x.output(j, c)] =
          (T(x.update.theta) * x.in[0][x.at(x.mean(), j, c)] + T(x.factor()) * sums[j * x.d + c]) /
          precision;
  }
}

template <class T>
void reference(const KeyUpdate& op, RefIn<T> in, RefOut<T> out) {
  KeyUpdateReference<T> x(op.options, in);
  for (const char* name : {"qk", "weights", x.sums()}) ref::part(name);
  x.for_heads([&] { head(x, out); });
}

template <class T>
void head(KeyUpdateReference<T>& x, RefIn<T> in, RefOut<T> out) {
  const bool through = !x.update.stop_gradient;
  const std::int64_t first = x.first();
  const std::vector<T> bias = x.key_bias();
  std::vector<T> dn(static_cast<std::size_t>(x.n * x.d), T(0)), dc, grad(dn),
      sums(static_cast<std::size_t>(x.n), T(0));
  ref::part(x.sums());
  for (std::int64_t j = 0; j < x.n; ++j) {
    const double precision = x.update.theta + x.factor() * double(in[3][first + j]);
    T dot(0);
    for (std::int64_t c = 0; c < x.d; ++c) {
      const T g = in[0][x.output(j, c)];
      dn[j * x.d + c] = g * T(x.factor() / precision);
      if (through) dot += g * in[1][x.output(j, c)];
      T& mean = out[0][x.at(x.mean(), j, c)];
      if (x.update.values)
        mean += g * T(x.update.theta / precision);
      else
        mean = g * T(x.update.theta / precision);
    }
    dc.push_back(T(-double(dot) * x.factor() / precision));
  }
  for (x.i = 0; x.i < x.n; ++x.i) {
    std::vector<T> w = x.scores(bias), ds(w.size(), T(0));
    ref::part("weights");
    for (T& s : w) s = ref::exp(s * x.scale(0) - in[2][first + x.i]);
    ref::part(x.sums());
    for (std::int64_t j = 0; j < x.n; ++j)
      for (std::int64_t c = 0; c < x.d; ++c) {
        const std::int64_t summed = x.at(x.summed(), x.i, c);
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
    for (std::int64_t j = 0; j < x.n; ++j) ds[j] = w[j] * (ds[j] - dot) * x.scale(0);
    ref::part("qk");
    for (std::int64_t j = 0; j < x.n; ++j) {
      if (x.rbf()) sums[j] += ds[j];
      for (std::int64_t c = 0; c < x.d; ++c) {
        ref::mac(out[0][x.at(0, x.i, c)], ds[j], x.element(3, j, c));
        ref::mac(grad[j * x.d + c], ds[j], x.element(0, x.i, c));
      }
    }
  }
  for (std::int64_t j = 0; j < x.n; ++j)
    for (std::int64_t c = 0; c < x.d; ++c) {
      T& g = grad[j * x.d + c];
      ref::part("qk");
      if (through && x.rbf()) g -= sums[j] * x.element(3, j, c);
      if (x.own() && x.update.values) {
        out[0][x.at(1, j, c)] = g;
      } else if (x.own()) {
        ref::part(x.sums());
        out[0][x.at(1, j, c)] += g;
      } else {
        out[1][x.output(j, c)] = g;
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
  x.for_heads([&] { head(x, in, out); });
}

}  // namespace hg::ops
