#pragma once

#include "tensor/ops/deviation.h"
#include "tensor/reference.h"

namespace hg {

template <>
struct Reference<ops::Deviation> {
  template <class T>
  static void run(const ops::Deviation&, RefIn<T> in, RefOut<T> out) {
    const std::int64_t batch = in[0].dim(0), n = in[0].dim(1), e = in[0].dim(2);
    for (std::int64_t b = 0; b < batch; ++b) {
      std::vector<T> mean(static_cast<std::size_t>(e), T(0));
      for (std::int64_t i = 0; i < n * e; ++i)
        mean[static_cast<std::size_t>(i % e)] += in[0][b * n * e + i];
      {
        const ref::PerRow once;
        for (T& m : mean) m = m / T(static_cast<double>(n));
      }
      for (std::int64_t i = 0; i < n; ++i) {
        out[0][b * n + i] = T(0);
        for (std::int64_t c = 0; c < e; ++c) {
          const T d = in[0][(b * n + i) * e + c] - mean[static_cast<std::size_t>(c)];
          out[0][b * n + i] += d * d;
        }
      }
    }
  }
};

}  // namespace hg
