#pragma once

#include "tensor/ops/embed.h"
#include "tensor/reference.h"

namespace hg {

template <>
struct Reference<ops::EmbedTokens> {
  template <class T>
  static void run(const ops::EmbedTokens&, RefIn<T> in, RefOut<T> out) {
    const std::int64_t n = in[0].dim(1), e = in[0].dim(2);
    for (std::int64_t b = 0; b < in[0].dim(0); ++b)
      for (std::int64_t t = 0; t <= n; ++t)
        for (std::int64_t c = 0; c < e; ++c) {
          const T token = t == 0 ? in[1][c] : in[0][(b * n + t - 1) * e + c];
          out[0][(b * (n + 1) + t) * e + c] = token + in[2][t * e + c];
        }
  }
};

template <>
struct Reference<ops::EmbedTokensBackward> {
  template <class T>
  static void run(const ops::EmbedTokensBackward&, RefIn<T> in, RefOut<T> out) {
    const std::int64_t batch = in[0].dim(0), n = in[0].dim(1), e = in[0].dim(2);
    for (std::int64_t t = 0; t < n; ++t)
      for (std::int64_t c = 0; c < e; ++c) {
        T sum(0);
        for (std::int64_t b = 0; b < batch; ++b) {
          const T g = in[0][(b * n + t) * e + c];
          sum += g;
          if (t > 0) out[0][(b * (n - 1) + t - 1) * e + c] = g;
        }
        out[2][t * e + c] = sum;
        if (t == 0) out[1][c] = sum;
      }
  }
};

}  // namespace hg
