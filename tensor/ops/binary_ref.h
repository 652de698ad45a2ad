#pragma once

#include "tensor/ops/binary.h"
#include "tensor/reference.h"

namespace hg::ops {

template <class T>
T apply(Binary::Kind kind, T a, T b) {
  using Kind = Binary::Kind;
  if (kind == Kind::add) return a + b;
  if (kind == Kind::sub) return a - b;
  return kind == Kind::mul ? a * b : a / b;
}

template <class T>
void reference(const Binary& op, RefIn<T> in, RefOut<T> out) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0][i] = apply(op.kind, in[0][i], in[1][i]);
}

}  // namespace hg::ops
