#pragma once

#include "tensor/ops/layer_norm.h"
#include "tensor/reference.h"

namespace hg {

template <>
struct Reference<ops::LayerNorm> {
  template <class T>
  static void run(const ops::LayerNorm& op, RefIn<T> in, RefOut<T> out) {
    auto &x = in[0], &gamma = in[1], &beta = in[2], &y = out[0], &mean = out[1], &rstd = out[2];
    const std::int64_t n = gamma.numel();
    for (std::int64_t j = 0; j < n; ++j) (void)gamma[j], (void)beta[j];  // read even for no rows
    for (std::int64_t r = 0; r < mean.numel(); ++r) {
      T sum(0), squares(0);
      for (std::int64_t j = 0; j < n; ++j) sum += x[r * n + j];
      mean[r] = over(sum, n);
      for (std::int64_t j = 0; j < n; ++j) {
        y[r * n + j] = x[r * n + j] - mean[r];
        squares += y[r * n + j] * y[r * n + j];
      }
      rstd[r] = inverse_sqrt(over(squares, n), op.eps);
      for (std::int64_t j = 0; j < n; ++j)
        y[r * n + j] = y[r * n + j] * rstd[r] * gamma[j] + beta[j];
    }
  }

  template <class T>
  static T over(T sum, std::int64_t n) {
    const ref::PerRow once;
    return sum / T(static_cast<double>(n));
  }
  template <class T>
  static T inverse_sqrt(T variance, double eps) {
    const ref::PerRow once;
    return T(1) / ref::sqrt(variance + T(eps));
  }
};

template <>
struct Reference<ops::LayerNormBackward> {
  template <class T>
  static void run(const ops::LayerNormBackward&, RefIn<T> in, RefOut<T> out) {
    auto &dy = in[0], &x = in[1], &gamma = in[2], &mean = in[3], &rstd = in[4];
    auto &dx = out[0], &dgamma = out[1], &dbeta = out[2];
    const std::int64_t n = gamma.numel();
    for (std::int64_t j = 0; j < n; ++j) {
      (void)gamma[j];
      dgamma[j] = dbeta[j] = T(0);
    }
    for (std::int64_t r = 0; r < mean.numel(); ++r) {
      std::vector<T> h(static_cast<std::size_t>(n)), g(h);
      T sum_g(0), sum_gh(0);
      for (std::int64_t j = 0; j < n; ++j) {
        T &hj = h[static_cast<std::size_t>(j)], &gj = g[static_cast<std::size_t>(j)];
        hj = (x[r * n + j] - mean[r]) * rstd[r];
        gj = dy[r * n + j] * gamma[j];
        sum_g += gj;
        sum_gh += gj * hj;
        dgamma[j] += dy[r * n + j] * hj;
        dbeta[j] += dy[r * n + j];
      }
      const T mean_g = Reference<ops::LayerNorm>::over(sum_g, n);
      const T mean_gh = Reference<ops::LayerNorm>::over(sum_gh, n);
      for (std::int64_t j = 0; j < n; ++j) {
        const T hj = h[static_cast<std::size_t>(j)], gj = g[static_cast<std::size_t>(j)];
        dx[r * n + j] = rstd[r] * (gj - mean_g - hj * mean_gh);
      }
    }
  }
};

}  // namespace hg
