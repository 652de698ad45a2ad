#pragma once

#include "tensor/ops/binary.h"
#include "tensor/reference.h"

namespace hg {

template <>
struct Reference<ops::Binary> {
  template <class T>
  static T apply(ops::Binary::Kind kind, T a, T b) {
    switch (kind) {
      case ops::Binary::Kind::add:
        return a + b;
      case ops::Binary::Kind::sub:
        return a - b;
      case ops::Binary::Kind::mul:
        return a * b;
      case ops::Binary::Kind::div:
        return a / b;
    }
    return a;
  }
  template <class T>
  static void run(const ops::Binary& op, RefIn<T> in, RefOut<T> out) {
    for (std::int64_t i = 0; i < out[0].numel(); ++i)
      out[0][i] = apply(op.kind, in[0][i], in[1][i]);
  }
};

}  // namespace hg
