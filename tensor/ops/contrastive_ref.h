#pragma once

#include <limits>

#include "tensor/ops/contrastive.h"
#include "tensor/reference.h"

namespace hg::ref {

// Which rows of labels are paired with which.
struct LabelledRows {
  std::vector<std::vector<std::int64_t>> positives, negatives;  // empty where a row is no anchor
  std::int64_t anchors = 0;

  template <class T>
  explicit LabelledRows(RefTensor<T>& labels) {
    const std::int64_t rows = labels.numel();
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t label = labels.integer(i);
      auto &p = positives.emplace_back(), &n = negatives.emplace_back();
      for (std::int64_t j = 0; j < rows; ++j)
        if (j != i) (label == labels.integer(j) ? p : n).push_back(j);
      if (!p.empty() && !n.empty())
        ++anchors;
      else
        p.clear(), n.clear();
    }
  }
};

template <class T>
T largest_of(const std::vector<T>& x) {
  T m(-std::numeric_limits<double>::infinity());
  for (const T& v : x) m = ref::max(m, v);
  return m;
}

// ln sum_j exp(scale x_j), of which scale largest is taken out
template <class T>
T logsumexp_of(const std::vector<T>& x, double scale, const T& largest) {
  const double shift = scale * static_cast<double>(largest);
  T sum(0);
  for (const T& v : x) sum += ref::exp(T(scale) * v - T(shift));
  return T(shift + std::log(static_cast<double>(sum)));
}

// ln G_p at t_p, and what is left of G; see tensor/ops/contrastive.h
template <class T>
struct Against {
  T log_g, left{1};
  bool floored = false;

  Against(const ContrastiveOptions& o, double negatives, double a, double b, const T& t)
      : log_g(a - b + std::log(negatives)) {
    const double tau_plus = o.tau_plus;
    if (tau_plus == 0) return;
    const T floor(std::log(negatives) - 1 / o.temperature);
    const T rest(static_cast<double>(log_g) - std::log(1 - tau_plus));
    left = T(1) - T(tau_plus * negatives) * ref::exp(t - log_g);
    log_g = ref::max(ref::log(ref::max(left, T(0))) + rest, floor);
    floored = static_cast<double>(log_g) == static_cast<double>(floor);
  }
};

}  // namespace hg::ref

namespace hg::ops {

// Both give the sum over the positives.
template <class T>
T all(const Contrastive& op, const std::vector<T>& positives, std::vector<T> others, T* lse) {
  others.insert(others.end(), positives.begin(), positives.end());
  lse[0] = ref::logsumexp_of(others, 1 / op.options.temperature, ref::largest_of(others));
  T sum(0);
  for (const T& s : positives) sum += s;
  const ref::PerRow once;
  return T(static_cast<double>(positives.size())) * lse[0] - sum / T(op.options.temperature);
}

template <class T>
T hard(const Contrastive& op, const std::vector<T>& positives, const std::vector<T>& negatives,
       T* lse) {
  const double tau = op.options.temperature, beta = op.options.beta;
  const T largest = ref::largest_of(negatives);
  lse[0] = ref::logsumexp_of(negatives, (beta + 1) / tau, largest);
  lse[1] = ref::logsumexp_of(negatives, beta / tau, largest);
  T sum(0);
  for (const T& s : positives) {
    const T t = s * T(1 / tau);
    const ref::Against<T> against(op.options, static_cast<double>(negatives.size()),
                                  static_cast<double>(lse[0]), static_cast<double>(lse[1]), t);
    const T x = against.log_g - t;
    sum += ref::max(x, T(0)) + ref::log(T(1) + ref::exp(-ref::abs(x)));
  }
  return sum;
}

template <class T>
void reference(const Contrastive& op, RefIn<T> in, RefOut<T> out) {
  auto &s = in[0], &lse = out[1];
  const ref::LabelledRows pairs(in[1]);
  const std::int64_t rows = lse.dim(0), width = lse.dim(1);
  double total = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < width; ++k) lse[i * width + k] = T(0);
    std::vector<T> positives, negatives;
    for (const std::int64_t j : pairs.positives[i]) positives.push_back(s[i * rows + j]);
    for (const std::int64_t j : pairs.negatives[i]) negatives.push_back(s[i * rows + j]);
    if (positives.empty()) continue;
    const T sum = op.options.form == ContrastiveOptions::Form::all
                      ? all(op, positives, negatives, &lse[i * width])
                      : hard(op, positives, negatives, &lse[i * width]);
    total += static_cast<double>(sum) / static_cast<double>(positives.size());
  }
  out[0][0] = T(pairs.anchors == 0 ? 0 : total / static_cast<double>(pairs.anchors));
}

template <class T>
void reference(const ContrastiveBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &s = in[1], &lse = in[3], &ds = out[0];
  const ref::LabelledRows pairs(in[2]);
  const std::int64_t rows = ds.dim(0), width = lse.dim(1);
  for (std::int64_t i = 0; i < ds.numel(); ++i) ds[i] = T(0);
  const double dy = static_cast<double>(in[0][0]);
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto &positives = pairs.positives[i], &negatives = pairs.negatives[i];
    if (positives.empty()) continue;
    const double p = static_cast<double>(positives.size()), tau = op.options.temperature;
    const double weight = dy / (static_cast<double>(pairs.anchors) * tau);
    const auto at = [&](std::int64_t j) -> T& { return s[i * rows + j]; };
    const auto to = [&](std::int64_t j) -> T& { return ds[i * rows + j]; };
    const auto softmax = [&](std::int64_t j, double scale, const T& shift) {
      return ref::exp(T(scale) * at(j) - shift);
    };
    if (op.options.form == ContrastiveOptions::Form::all) {
      const T shift = lse[i];
      for (const auto j : positives) to(j) = (softmax(j, 1 / tau, shift) - T(1 / p)) * T(weight);
      for (const auto j : negatives) to(j) = softmax(j, 1 / tau, shift) * T(weight);
      continue;
    }
    const T a = lse[i * width], b = lse[i * width + 1];
    T force(0);
    for (const auto j : positives) {
      const T t = at(j) * T(1 / tau);
      const ref::Against<T> against(op.options, static_cast<double>(negatives.size()),
                                    static_cast<double>(a), static_cast<double>(b), t);
      T w = T(1) / (T(1) + ref::exp(-(against.log_g - t)));
      if (op.options.tau_plus > 0) {
        const T raised = w / against.left;
        w = against.floored ? T(-static_cast<double>(w)) : raised;
      }
      force += ref::max(w, T(0));
      to(j) = ref::abs(w) * T(-weight / p);
    }
    const double beta = op.options.beta, up = static_cast<double>(force) * weight / p;
    for (const auto j : negatives)
      to(j) = softmax(j, (beta + 1) / tau, a) * T((beta + 1) * up) +
              softmax(j, beta / tau, b) * T(-beta * up);
  }
}

}  // namespace hg::ops
