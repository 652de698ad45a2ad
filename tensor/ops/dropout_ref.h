#pragma once

#include "tensor/ops/dropout.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Dropout& op, RefIn<T> in, RefOut<T> out) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    const std::uint64_t position = op.first + static_cast<std::uint64_t>(i);
    const double u = uniform_from_bits(draw_block(op.key, position / 4)[position % 4]);
    out[0][i] = in[0][i] * T(u < op.probability ? 0 : 1 / (1 - op.probability));
  }
}

}  // namespace hg::ops
