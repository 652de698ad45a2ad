#pragma once

#include "tensor/ops/patchify.h"
#include "tensor/reference.h"

namespace hg::ref {

// Where pixel `i` of images [B,C,H,W] lies in patches [B,n,C p p].
inline std::int64_t place_in_patches(const Shape& images, std::int64_t p, std::int64_t i) {
  const std::int64_t x = i % images[3], y = i / images[3] % images[2];
  const std::int64_t c = i / (images[3] * images[2]) % images[1];
  const std::int64_t b = i / images.product(1, 4);
  const std::int64_t across = images[3] / p, n = images[2] / p * across;
  const std::int64_t patch = b * n + y / p * across + x / p;
  return ((patch * images[1] + c) * p + y % p) * p + x % p;
}

}  // namespace hg::ref

namespace hg::ops {

template <class T>
void reference(const Patchify& op, RefIn<T> in, RefOut<T> out) {
  for (std::int64_t i = 0; i < in[0].numel(); ++i)
    copy_element(in[0], i, out[0], ref::place_in_patches(in[0].shape(), op.patch, i));
}

template <class T>
void reference(const PatchifyKept& op, RefIn<T> in, RefOut<T> out) {
  const Shape& images = in[0].shape();
  const std::int64_t p = op.patch, across = images[3] / p, pixels = p * p;
  for (std::int64_t i = 0; i < in[1].numel(); ++i) {
    const std::int64_t image = i / in[1].dim(1), patch = in[1].integer(i);
    for (std::int64_t j = 0; j < images[1] * pixels; ++j) {
      const std::int64_t c = j / pixels, y = j % pixels / p, x = j % p;
      const std::int64_t line = (image * images[1] + c) * images[2] + patch / across * p + y;
      copy_element(in[0], line * images[3] + patch % across * p + x, out[0],
                   i * images[1] * pixels + j);
    }
  }
}

template <class T>
void reference(const Unpatchify& op, RefIn<T> in, RefOut<T> out) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i)
    copy_element(in[0], ref::place_in_patches(out[0].shape(), op.patch, i), out[0], i);
}

}  // namespace hg::ops
