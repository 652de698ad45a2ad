#pragma once

#include "tensor/ops/optimizer.h"
#include "tensor/reference.h"

namespace hg::ref {

template <class T>
T sum_of_grads(RefIn<T> grads, double grad_scale, std::int64_t i) {
  T g = grads[0][i];
  for (std::size_t k = 1; k < grads.size(); ++k) g += grads[k][i];
  return grad_scale == 1 ? g : g * T(grad_scale);
}

inline bool changes(const UpdateRanges& part, std::int64_t i) {
  if (part.all()) return true;
  for (const auto& [first, second] : part.ranges)
    if (i % part.period >= first && i % part.period < second) return true;
  return false;
}

// What a step does not change is where it was: nothing is read or written.
template <class T>
void keep(RefIn<T> in, RefOut<T> out, std::int64_t i) {
  Tally* const counting = std::exchange(tally, nullptr);
  for (std::size_t state = 0; state < out.size(); ++state) out[state][i] = in[state][i];
  tally = counting;
}

}  // namespace hg::ref

namespace hg::ops {

template <class T>
void reference(const AdamW& op, RefIn<T> in, RefOut<T> out) {
  const AdamWOptions& o = op.options;
  const double n = static_cast<double>(o.step);
  const T keep(1 - o.lr * o.weight_decay), rate(o.lr / (1 - std::pow(o.beta1, n)));
  const T root(1 / std::sqrt(1 - std::pow(o.beta2, n)));
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    if (!ref::changes(o.ranges, i)) {
      ref::keep<T>(in, out, i);
      continue;
    }
    const T g = ref::sum_of_grads(in.subspan(3), o.grad_scale, i);
    out[1][i] = T(o.beta1) * in[1][i] + T(1 - o.beta1) * g;
    out[2][i] = T(o.beta2) * in[2][i] + T(1 - o.beta2) * (g * g);
    const T step = rate * out[1][i] / (ref::sqrt(out[2][i]) * root + T(o.eps));
    out[0][i] = in[0][i] * keep - step;
  }
}

template <class T>
void reference(const AdamWAll& op, RefIn<T> in, RefOut<T> out) {
  constexpr std::size_t kStates = AdamWAll::kStates;
  const std::size_t inputs = kStates + op.copies;
  for (std::size_t i = 0; i < op.weight_decays.size(); ++i)
    reference<T>(op.of(i), in.subspan(inputs * i, inputs), out.subspan(kStates * i, kStates));
}

template <class T>
void reference(const Sgd& op, RefIn<T> in, RefOut<T> out) {
  const SgdOptions& o = op.options;
  const bool momentum = o.momentum != 0;
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    if (!ref::changes(o.ranges, i)) {
      ref::keep<T>(in, out, i);
      continue;
    }
    const T g = ref::sum_of_grads(in.subspan(momentum ? 2 : 1), o.grad_scale, i) +
                T(o.weight_decay) * in[0][i];
    T d = g;
    if (momentum) d = out[1][i] = T(o.momentum) * in[1][i] + g;
    if (o.nesterov) d = g + T(o.momentum) * d;
    out[0][i] = in[0][i] - T(o.lr) * d;
  }
}

template <class T>
void reference(const GradNorm& op, RefIn<T> in, RefOut<T> out) {
  const auto copies = static_cast<std::size_t>(op.copies);
  T sum(0);
  for (std::size_t first = 0; first < in.size(); first += copies)
    for (std::int64_t i = 0; i < in[first].numel(); ++i) {
      const T g = ref::sum_of_grads(in.subspan(first, copies), 1, i);
      sum += g * g;
    }
  const ref::PerRow once;
  out[0][0] = ref::sqrt(sum);
}

}  // namespace hg::ops
