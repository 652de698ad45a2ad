// Products of the cuBLAS stand-in, with its rules for leading dimensions.
#include <cublas_v2.h>

#include <algorithm>

#include "tests/cuda_emu/memory.h"
#include "tests/cuda_emu/queue.h"

struct cublasContext {};

namespace {

struct Matrix {  // column-major
  const float* data;
  int ld;
  cublasOperation_t op;
  float at(int row, int column) const {
    if (op == CUBLAS_OP_T) std::swap(row, column);
    return data[row + static_cast<std::ptrdiff_t>(column) * ld];
  }
};

// Elements of a column, and columns, as they are stored.
struct Extent {
  int rows, columns;
};
Extent stored(cublasOperation_t op, int rows, int columns) {
  return op == CUBLAS_OP_N ? Extent{rows, columns} : Extent{columns, rows};
}

// Column by column, as what lies between may belong to others.
template <class F>
void for_columns(const float* p, const Extent& e, int ld, F f) {
  for (int c = 0; c < e.columns; ++c)
    f(p + static_cast<std::ptrdiff_t>(c) * ld, static_cast<std::size_t>(e.rows) * sizeof(float));
}

void product(int m, int n, int k, float alpha, const Matrix& a, const Matrix& b, float beta,
             float* c, int ldc) {
  for (int column = 0; column < n; ++column)
    for (int row = 0; row < m; ++row) {
      float sum = 0;
      for (int i = 0; i < k; ++i) sum += a.at(row, i) * b.at(i, column);
      float& to = c[row + static_cast<std::ptrdiff_t>(column) * ldc];
      to = alpha * sum + (beta == 0 ? 0 : beta * to);
    }
}

}  // namespace

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k,
                                         const float* alpha, const float* A, int lda,
                                         long long strideA, const float* B, int ldb,
                                         long long strideB, const float* beta, float* C, int ldc,
                                         long long strideC, int batchCount) {
  using namespace hg::emu;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Extent a = stored(transa, m, k), b = stored(transb, k, n), c{m, n};
  if (m < 0 || n < 0 || k < 0 || batchCount < 0 || lda < std::max(1, a.rows) ||
      ldb < std::max(1, b.rows) || ldc < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  queue_work();
  const DeviceAccess open;
  for (int i = 0; i < batchCount; ++i, A += strideA, B += strideB, C += strideC) {
    const auto read = [](const void* p, std::size_t n) { host_reads("cublasSgemm", p, n); };
    for_columns(A, a, lda, read);
    for_columns(B, b, ldb, read);
    if (*beta != 0) for_columns(C, c, ldc, read);
    for_columns(C, c, ldc,
                [](const float* p, std::size_t n) { host_wrote(const_cast<float*>(p), n); });
    product(m, n, k, *alpha, {A, lda, transa}, {B, ldb, transb}, *beta, C, ldc);
  }
  return CUBLAS_STATUS_SUCCESS;
}
