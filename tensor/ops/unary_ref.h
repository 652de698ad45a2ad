#pragma once

#include "tensor/ops/unary.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
T apply(const Unary& op, T x) {
  using enum UnaryKind;
  switch (op.kind) {
    case scale:
      return x * T(op.a);
    case exp:
      return ref::exp(x);
    case log:
      return ref::log(x);
    case sqrt:
      return ref::sqrt(x);
    case tanh:
      return ref::tanh(x);
    case sigmoid:
      return T(1) / (T(1) + ref::exp(-x));
    case relu:
      return ref::max(x, T(0));
    case elu1:
      return x > T(0) ? x + T(1) : ref::exp(x);
    case gelu:
      return T(0.5) * x * (T(1) + ref::erf(x * T(std::sqrt(0.5))));
    case square:
      return x * x;
    case abs:
      return ref::abs(x);
    case clamp:
      return ref::min(ref::max(x, T(op.a)), T(op.b));
  }
  return x;
}

template <class T>
void reference(const Unary& op, RefIn<T> in, RefOut<T> out) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0][i] = apply(op, in[0][i]);
}

template <class T>
T gelu_derivative(T x) {
  const T cdf = T(0.5) * (T(1) + ref::erf(x * T(std::sqrt(0.5))));
  const T pdf = T(0.3989422804014327) * ref::exp(T(-0.5) * (x * x));
  return cdf + x * pdf;
}

template <class T>
T sign(T x) {
  const T magnitude = ref::abs(x);  // counted as the one operation that a sign is
  return T(double(x) == 0 ? 0 : double(x) / double(magnitude));
}

// `v` is x or y of the forward call, whichever the row keeps.
template <class T>
T apply(const UnaryBackward& op, T g, T v) {
  using enum UnaryKind;
  switch (op.kind) {
    case scale:
      return g * T(op.a);
    case exp:
      return g * v;
    case log:
      return g / v;
    case sqrt:
      return g * T(0.5) / v;
    case tanh:
      return g * (T(1) - v * v);
    case sigmoid:
      return g * (v * (T(1) - v));
    case relu:
      return v > T(0) ? g : T(0);
    case elu1:
      return g * ref::min(v, T(1));
    case gelu:
      return g * gelu_derivative(v);
    case square:
      return g * T(2) * v;
    case abs:
      return g * sign(v);
    case clamp:
      return (v < T(op.a)) | (v > T(op.b)) ? T(0) : g;
  }
  return g;
}

template <class T>
void reference(const UnaryBackward& op, RefIn<T> in, RefOut<T> out) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i)
    out[0][i] = apply(op, in[0][i], in.size() == 2 ? in[1][i] : T(0));
}

}  // namespace hg::ops
