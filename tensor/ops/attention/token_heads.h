// Where the heads of [B, N, H D] lie: rows of D elements, `row` apart.
#pragma once

#include "tensor/cpu/gemm.h"
#include "tensor/host_device.h"
#include "tensor/tensor.h"

namespace hg {

template <class T>
struct TokenHeads {
  T* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
  T* at(std::int64_t b, std::int64_t h) const { return data + b * batch + h * head; }
  HG_HOST_DEVICE T* of(int index, int heads) const {  // index: of (image, head)
    return data + index / heads * batch + index % heads * head;
  }
  cpu::Matrix<T> matrix(std::int64_t b, std::int64_t h, std::int64_t i = 0) const {
    return {at(b, h) + i * row, row, 1};
  }
};

// Part `which` of `parts` that lie side by side in x [B, N, parts H D].
template <class T>
TokenHeads<T> token_heads(const Tensor& x, std::int64_t heads, int which = 0, int parts = 1) {
  const std::int64_t row = x.dim(2), width = row / parts;
  return {x.data<T>() + which * width, row * x.dim(1), width / heads, row};
}

}  // namespace hg
