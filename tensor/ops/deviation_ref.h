#pragma once

#include "tensor/ops/deviation.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Deviation&, RefIn<T> in, RefOut<T> out) {
  const std::int64_t batch = in[0].dim(0), n = in[0].dim(1), e = in[0].dim(2);
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<T> mean(static_cast<std::size_t>(e), T(0));
    for (std::int64_t i = 0; i < n * e; ++i) mean[i % e] += in[0][b * n * e + i];
    for (T& m : mean) m = ref::mean(m, n);
    for (std::int64_t i = 0; i < n; ++i) {
      out[0][b * n + i] = T(0);
      for (std::int64_t c = 0; c < e; ++c) {
        const T d = in[0][(b * n + i) * e + c] - mean[c];
        out[0][b * n + i] += d * d;
      }
    }
  }
}

}  // namespace hg::ops
