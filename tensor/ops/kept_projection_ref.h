#pragma once

#include "tensor/ops/kept_projection.h"
#include "tensor/reference.h"

namespace hg::ops {

// Calls body(which of q, k, v; row in that output; token row in x; row of the weight) for every
// (token, head) that is projected, and each of its D outputs.
void for_each_projection(const Supports& supports, std::int64_t batch, std::int64_t n,
                         std::int64_t d, auto body) {
  const std::int64_t heads = supports.heads(), width = heads * d;
  std::int64_t first = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const PairSupport& support = supports.of_image(b);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t c = 0; c < d; ++c) {
        for (std::int64_t i = 0; i < n; ++i)
          body(0, (b * n + i) * width + h * d + c, b * n + i, h * d + c);
        for (std::int64_t r = 0; r < support.kept(h); ++r)
          for (const int which : {1, 2})
            body(which, (first + r) * d + c, b * n + support.kept_tokens(h)[r],
                 which * width + h * d + c);
      }
      first += support.kept(h);
    }
  }
}

template <class T>
void reference(const KeptProjection& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t inner = in[0].dim(2), d = in[1].dim(0) / (3 * op.supports.heads());
  for (const char* name : {"product", "bias"}) ref::part(name);
  for_each_projection(op.supports, in[0].dim(0), in[0].dim(1), d,
                      [&](int which, std::int64_t at, std::int64_t token, std::int64_t row) {
                        ref::part("product");
                        T& y = out[which][at];
                        y = T(0);
                        for (std::int64_t k = 0; k < inner; ++k)
                          ref::mac(y, in[0][token * inner + k], in[1][row * inner + k]);
                        ref::part("bias");
                        if (in.size() == 3) y = y + in[2][row];
                      });
}

// in: dq, dk, dv, x, weight
template <class T>
void reference(const KeptProjectionBackward& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t inner = in[3].dim(2), d = in[4].dim(0) / (3 * op.supports.heads());
  RefTensor<T>*dx = nullptr, *dw = nullptr, *db = nullptr;
  std::size_t next = 0;
  if (op.wants.x) dx = &out[next++];
  if (op.wants.weight) dw = &out[next++];
  if (op.wants.bias) db = &out[next];
  for (const char* name : {"bias", "product"}) ref::part(name);
  for (RefTensor<T>* t : {dx, dw, db}) {
    ref::part(t == db ? "bias" : "product");
    for (std::int64_t i = 0; t && i < t->numel(); ++i) (*t)[i] = T(0);
  }
  for_each_projection(op.supports, in[3].dim(0), in[3].dim(1), d,
                      [&](int which, std::int64_t at, std::int64_t token, std::int64_t row) {
                        ref::part(dx || dw ? "product" : "bias");
                        const T g = in[which][at];
                        for (std::int64_t k = 0; k < inner; ++k) {
                          if (dx) ref::mac((*dx)[token * inner + k], g, in[4][row * inner + k]);
                          if (dw) ref::mac((*dw)[row * inner + k], g, in[3][token * inner + k]);
                        }
                        ref::part("bias");
                        if (db) (*db)[row] = (*db)[row] + g;
                      });
}

}  // namespace hg::ops
