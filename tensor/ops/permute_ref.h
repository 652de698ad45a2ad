#pragma once

#include "tensor/ops/permute.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
void reference(const Permute& op, RefIn<T> in, RefOut<T> out) {
  const Shape steps = in[0].shape().contiguous_strides();
  const int rank = op.order.rank();
  for (std::int64_t o = 0; o < out[0].numel(); ++o) {
    std::int64_t rest = o, from = 0;
    for (int i = rank - 1; i >= 0; --i) {
      from += rest % out[0].dim(i) * steps[static_cast<int>(op.order[i])];
      rest /= out[0].dim(i);
    }
    copy_element(in[0], from, out[0], o);
  }
}

}  // namespace hg::ops
