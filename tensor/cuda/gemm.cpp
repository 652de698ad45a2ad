#include "tensor/cuda/gemm.h"

#include <algorithm>
#include <limits>

#include "tensor/cuda/check.h"

namespace hg::cuda {
namespace {

int as_int(std::int64_t extent) {
  require(extent <= std::numeric_limits<int>::max(), "gemm", "an extent of {} is too large",
          extent);
  return static_cast<int>(extent);
}

// A row-major matrix as cuBLAS sees it: its transpose, column-major.
struct Side {
  cublasOperation_t op;
  int ld;
};
Side side_of(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  if (matrix.column_stride == 1 || columns == 1)
    return {CUBLAS_OP_N, as_int(rows == 1 ? std::max<std::int64_t>(columns, 1)
                                          : std::max(matrix.row_stride, columns))};
  return {CUBLAS_OP_T, as_int(std::max(matrix.column_stride, rows))};
}

// A sum of nothing.
void clear(std::int64_t batch, std::int64_t m, std::int64_t n, const Product& c,
           CudaStream& stream) {
  if (c.add) return;
  stream.count_work();
  for (std::int64_t i = 0; i < batch * m; ++i) {
    float* const row = c.data + i / m * c.batch_stride + i % m * c.row_stride;
    check(cudaMemsetAsync(row, 0, static_cast<std::size_t>(n) * sizeof(float), stream.handle()),
          "cudaMemset");
  }
}

}  // namespace

// In column-major terms c^T [n, m] = b^T [n, k] a^T [k, m].
void gemm(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
          const Matrix& b, const Product& c, CudaStream& stream) {
  if (batch * m * n == 0) return;
  if (k == 0) return clear(batch, m, n, c, stream);
  stream.count_work();
  const float one = 1, before = c.add ? 1 : 0;
  const Side left = side_of(b, k, n), right = side_of(a, m, k);
  check(cublasSgemmStridedBatched(stream.blas(), left.op, right.op, as_int(n), as_int(m), as_int(k),
                                  &one, b.data, left.ld, b.batch_stride, a.data, right.ld,
                                  a.batch_stride, &before, c.data,
                                  as_int(m == 1 ? n : c.row_stride), c.batch_stride, as_int(batch)),
        "gemm");
}

void gemm(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
          const Matrix& b, float* c, CudaStream& stream) {
  gemm(batch, m, n, k, a, b, Product{c, n, m * n}, stream);
}

}  // namespace hg::cuda
