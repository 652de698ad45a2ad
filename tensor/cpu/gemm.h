// The one matrix product: C = alpha A B (+ C) (+ bias) (then GELU), float and double. A and B are
// read in place at any strides. Each element of C is one multiply-add chain over k, in blocks of k
// that depend on k alone: its bits depend neither on the threads nor on the tile it falls in.
#pragma once

#include <cstdint>

namespace hg::cpu {

// Element (i, j) is data[i * row_stride + j * col_stride].
template <class T>
struct Matrix {
  const T* data;
  std::int64_t row_stride, col_stride;

  const T* at(std::int64_t i, std::int64_t j) const {
    return data + i * row_stride + j * col_stride;
  }
  Matrix block(std::int64_t i, std::int64_t j) const { return {at(i, j), row_stride, col_stride}; }
  Matrix transposed() const { return {data, col_stride, row_stride}; }
};

// sums = alpha A B (+ what was there, if accumulate) (+ bias[column]), formed in `pre` if it is
// set, else in C; with gelu C = gelu(sums).
template <class T>
struct Epilogue {
  T alpha = 1;
  bool accumulate = false;
  const T* bias = nullptr;
  bool gelu = false;
  T* pre = nullptr;  // only with gelu; leading dimension as C
};

// C[m,n], row-major with rows ldc apart, shared out over threads(). C must not overlap A or B. Any
// size may be 0; k = 0 is the epilogue of zero. Packs into a buffer kept per thread.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, Matrix<T> b, T* c,
          std::int64_t ldc, const Epilogue<T>& epilogue = {});

// The same on the calling thread, packing into scratch[gemm_scratch<T>(n, k)]; allocates nothing.
template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, Matrix<T> b, T* c,
                 std::int64_t ldc, T* scratch, const Epilogue<T>& epilogue = {});
template <class T>
std::int64_t gemm_scratch(std::int64_t n, std::int64_t k);

// The same with B packed beforehand, once for several products: packed[packed_size<T>(n, k)].
template <class T>
void gemm_packed(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, const T* packed, T* c,
                 std::int64_t ldc, const Epilogue<T>& epilogue = {});
template <class T>
void pack_b(std::int64_t n, std::int64_t k, Matrix<T> b, T* packed);
template <class T>
std::int64_t packed_size(std::int64_t n, std::int64_t k);

}  // namespace hg::cpu
