// The operands of one call of attention within groups and where they lie, for kernels of the CPU
// and of CUDA.
#pragma once

#include <cmath>

#include "tensor/ops/attention/token_heads.h"

namespace hg {

struct GroupSizes {
  std::int64_t batch, heads, n, m, d;  // n queries, m keys
  GroupSizes(std::int64_t heads, bool apart, In in)
      : batch(in[0].dim(0)),
        heads(heads),
        n(in[0].dim(1)),
        m(apart ? in[1].dim(1) : n),
        d(in[0].dim(2) / (heads * (apart ? 1 : 3))) {}
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  std::int64_t rows() const { return batch * heads * n; }
};

// Operand `which` (q, k, v) of tensors laid out like the forward's inputs.
template <class T>
TokenHeads<T> group_operand(std::int64_t heads, bool apart, In in, int which) {
  return apart ? token_heads<T>(in[which], heads) : token_heads<T>(in[0], heads, which, 3);
}

}  // namespace hg
