#pragma once

#include "tensor/ops/favor_features.h"
#include "tensor/reference.h"

namespace hg::ops {

// Tokens [begin, end) of image b, head h share a shift; f is called for each such group.
template <class T, class F>
void for_favor_groups(const FavorFeatures& op, const RefTensor<T>& products, F f) {
  const bool sequence = op.shift == FavorFeatures::Shift::sequence;
  for (std::int64_t b = 0; b < products.dim(0); ++b)
    for (std::int64_t h = 0; h < products.dim(2); ++h)
      for (std::int64_t i = 0; i < (sequence ? 1 : products.dim(1)); ++i)
        f(b, h, i, sequence ? products.dim(1) : i + 1);
}

template <class T>
void reference(const FavorFeatures& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t n = in[1].dim(1), heads = in[1].dim(2), m = in[1].dim(3);
  const std::int64_t d = in[0].dim(2) / heads;
  const double scale = 1 / std::sqrt(std::sqrt(static_cast<double>(d)));
  for_favor_groups(
      op, in[1], [&](std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
        T c(-1e300);
        if (op.shift == FavorFeatures::Shift::none)
          c = T(0);
        else
          for (std::int64_t i = begin; i < end; ++i)
            for (std::int64_t k = 0; k < m; ++k)
              c = ref::max(c, in[1][((b * n + i) * heads + h) * m + k]);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = (b * n + i) * heads + h;
          T norm(0);
          for (std::int64_t k = 0; k < d; ++k) norm += in[0][row * d + k] * in[0][row * d + k];
          const T offset(scale * scale * double(norm) / 2 + scale * double(c));
          for (std::int64_t k = 0; k < m; ++k) {
            const T e = ref::exp(in[1][row * m + k] * T(scale) - offset);
            out[0][row * m + k] = (e + T(op.eps)) * T(1 / std::sqrt(static_cast<double>(m)));
          }
        }
      });
}

template <class T>
void reference(const FavorFeaturesBackward& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t n = in[3].dim(1), heads = in[3].dim(2), m = in[3].dim(3);
  const std::int64_t d = in[2].dim(2) / heads;
  const double scale = 1 / std::sqrt(std::sqrt(static_cast<double>(d)));
  for_favor_groups(
      op.forward, in[3], [&](std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
        double total = 0, top = -1e300;
        std::int64_t largest = 0;
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = (b * n + i) * heads + h;
          T sum(0);
          for (std::int64_t k = 0; k < m; ++k) {
            const T e = in[1][row * m + k] - T(op.forward.eps / std::sqrt(static_cast<double>(m)));
            const T dt = in[0][row * m + k] * e;
            sum += dt;
            out[1][row * m + k] = dt * T(scale);
            const double product = double(in[3][row * m + k]);
            if (product > top) top = product, largest = row * m + k;
          }
          for (std::int64_t k = 0; k < d; ++k)
            out[0][row * d + k] = in[2][row * d + k] * T(-scale * scale * double(sum));
          total += double(sum);
        }
        if (op.forward.shift != FavorFeatures::Shift::none)
          out[1][largest] = T(double(out[1][largest]) - scale * total);
      });
}

}  // namespace hg::ops
