#include "tensor/cuda/gemm.h"

#include <algorithm>

#include "tensor/cuda/check.h"
#include "tensor/cuda/single_product.h"

namespace hg::cuda {
namespace {

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
  if (batch == 1 && single_product(m, n, k, a, b, c, nullptr, stream)) return;
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
