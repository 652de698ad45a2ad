#pragma once

#include "tensor/ops/normalize_pixels.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const NormalizePixels&, RefIn<T> in, RefOut<T> out) {
  const std::int64_t channels = in[0].dim(1), plane = in[0].dim(2) * in[0].dim(3);
  for (std::int64_t i = 0; i < in[0].dim(0) * channels * plane; ++i) {
    const std::int64_t c = i / plane % channels;
    out[0][i] = in[1][c] * in[0][i] + in[1][channels + c];
  }
}

}  // namespace hg::ops
