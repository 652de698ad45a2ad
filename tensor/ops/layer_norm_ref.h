#pragma once

#include "tensor/ops/layer_norm.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const LayerNorm& op, RefIn<T> in, RefOut<T> out) {
  auto &x = in[0], &gamma = in[1], &beta = in[2], &y = out[0], &mean = out[1], &rstd = out[2];
  const std::int64_t n = gamma.numel();
  for (std::int64_t j = 0; j < n; ++j) (void)gamma[j], (void)beta[j];  // read even for no rows
  for (std::int64_t r = 0; r < mean.numel(); ++r) {
    T sum(0), squares(0);
    for (std::int64_t j = 0; j < n; ++j) sum += x[r * n + j];
    mean[r] = ref::mean(sum, n);
    for (std::int64_t j = 0; j < n; ++j) {
      y[r * n + j] = x[r * n + j] - mean[r];
      squares += y[r * n + j] * y[r * n + j];
    }
    rstd[r] = ref::once([&] { return T(1) / ref::sqrt(ref::mean(squares, n) + T(op.eps)); });
    for (std::int64_t j = 0; j < n; ++j) y[r * n + j] = y[r * n + j] * rstd[r] * gamma[j] + beta[j];
  }
}

template <class T>
void reference(const LayerNormBackward&, RefIn<T> in, RefOut<T> out) {
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
      h[j] = (x[r * n + j] - mean[r]) * rstd[r];
      g[j] = dy[r * n + j] * gamma[j];
      sum_g += g[j];
      sum_gh += g[j] * h[j];
      dgamma[j] += dy[r * n + j] * h[j];
      dbeta[j] += dy[r * n + j];
    }
    const T mean_g = ref::mean(sum_g, n), mean_gh = ref::mean(sum_gh, n);
    for (std::int64_t j = 0; j < n; ++j) dx[r * n + j] = rstd[r] * (g[j] - mean_g - h[j] * mean_gh);
  }
}

}  // namespace hg::ops
