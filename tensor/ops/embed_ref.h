#pragma once

#include "tensor/ops/embed.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const EmbedTokens&, RefIn<T> in, RefOut<T> out) {
  const std::int64_t n = in[0].dim(1), e = in[0].dim(2);
  for (std::int64_t b = 0; b < in[0].dim(0); ++b)
    for (std::int64_t t = 0; t <= n; ++t)
      for (std::int64_t c = 0; c < e; ++c) {
        const T token = t == 0 ? in[1][c] : in[0][(b * n + t - 1) * e + c];
        const std::int64_t position =
            t > 0 && in.size() == 4 ? in[3].integer(b * n + t - 1) + 1 : t;
        out[0][(b * (n + 1) + t) * e + c] = token + in[2][position * e + c];
      }
}

template <class T>
void reference(const EmbedTokensBackward&, RefIn<T> in, RefOut<T> out) {
  const std::int64_t batch = in[0].dim(0), n = in[0].dim(1), e = in[0].dim(2);
  for (std::int64_t i = 0; i < out[2].numel(); ++i) out[2][i] = T(0);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < n; ++t)
      for (std::int64_t c = 0; c < e; ++c) {
        const T g = in[0][(b * n + t) * e + c];
        const std::int64_t i = b * (n - 1) + t - 1;
        const std::int64_t position = t > 0 && in.size() == 2 ? in[1].integer(i) + 1 : t;
        out[2][position * e + c] += g;
        if (t > 0) out[0][i * e + c] = g;
      }
  for (std::int64_t c = 0; c < e; ++c) out[1][c] = out[2][c];
}

}  // namespace hg::ops
