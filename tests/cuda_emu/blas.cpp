// Products of the stand-ins for cuBLAS and cublasLt, with their rules for leading dimensions and,
// for cublasLt, for the matrices that an algorithm was chosen for.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda_emu/memory.h"
#include "tests/cuda_emu/queue.h"

struct cublasContext {};
struct cublasLtContext {};

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

void read(const char* who, const float* p, const Extent& e, int ld) {
  for_columns(p, e, ld, [&](const void* at, std::size_t bytes) {
    hg::emu::host_reads(who, at, bytes);
    hg::emu::traffic().read += bytes;
  });
}
void wrote(const float* p, const Extent& e, int ld) {
  for_columns(p, e, ld, [](const float* at, std::size_t bytes) {
    hg::emu::host_wrote(const_cast<float*>(at), bytes);
    hg::emu::traffic().written += bytes;
  });
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
    read("cublasSgemm", A, a, lda);
    read("cublasSgemm", B, b, ldb);
    if (*beta != 0) read("cublasSgemm", C, c, ldc);
    wrote(C, c, ldc);
    product(m, n, k, *alpha, {A, lda, transa}, {B, ldb, transb}, *beta, C, ldc);
  }
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

constexpr std::size_t kWorkspace = 512;     // of products
constexpr std::uint64_t kLongProduct = 16;  // with as many terms
std::uint64_t searches = 0;

bool aligned(const void* p, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

template <class T>
cublasStatus_t assign(T& to, const void* value, std::size_t bytes) {
  if (!value || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// op(A) [m, k] B [k, n] -> D [m, n]
struct Extents {
  std::uint64_t m, n, k;
  bool agree;
};
Extents extents_of(const cublasLtMatmulDescOpaque_t& desc, const cublasLtMatrixLayoutOpaque_t& a,
                   const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  const bool turned = desc.transa == CUBLAS_OP_T, b_turned = desc.transb == CUBLAS_OP_T;
  const std::uint64_t rows = turned ? a.cols : a.rows, inner = turned ? a.rows : a.cols;
  const std::uint64_t b_rows = b_turned ? b.cols : b.rows, columns = b_turned ? b.rows : b.cols;
  return {d.rows, d.cols, inner, rows == d.rows && inner == b_rows && columns == d.cols};
}

bool chosen_for(const cublasLtMatmulAlgo_t& algo, const Extents& e, const void* const (&abcd)[4],
                const void* bias, const void* workspace, std::size_t workspace_bytes) {
  for (int i = 0; i < 4; ++i)
    if (!aligned(abcd[i], algo.alignments[i])) return false;
  return algo.m == e.m && algo.n == e.n && algo.k == e.k && aligned(bias, algo.bias_alignment) &&
         workspace_bytes >= algo.workspace && aligned(workspace, 16);
}

}  // namespace

std::uint64_t hg::emu::kernel_searches() { return searches; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static cublasLtContext context;
  *handle = &context;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType,
                                        std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  if (rows == 0 || cols == 0 || ld < static_cast<std::int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  *layout = {rows, cols, ld, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t,
                                      cudaDataType) {
  *desc = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(desc->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(desc->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(desc->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  *preference = {0, {256, 256, 256, 256}, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return assign(preference->workspace, value, bytes);
  return assign(preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t results[], int* returnAlgoCount) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Extents e = extents_of(*desc, *Adesc, *Bdesc, *Ddesc);
  if (requestedAlgoCount < 1 || !e.agree) return CUBLAS_STATUS_INVALID_VALUE;
  ++searches;
  *returnAlgoCount = 0;
  if (e.m == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (e.n == 1) return CUBLAS_STATUS_SUCCESS;
  const std::size_t workspace =
      e.k >= kLongProduct && preference->workspace >= kWorkspace ? kWorkspace : 0;
  cublasLtMatmulAlgo_t algo{e.m, e.n, e.k, workspace, {}, 256, {}};
  std::copy_n(preference->alignments, 4, algo.alignments);
  while (!aligned(desc->bias, algo.bias_alignment)) algo.bias_alignment /= 2;
  results[(*returnAlgoCount)++] = {algo, workspace, CUBLAS_STATUS_SUCCESS, 1, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t Adesc, const void* B,
                              cublasLtMatrixLayout_t Bdesc, const void* beta, const void* C,
                              cublasLtMatrixLayout_t, void* D, cublasLtMatrixLayout_t Ddesc,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspaceSizeInBytes, cudaStream_t) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Extents e = extents_of(*desc, *Adesc, *Bdesc, *Ddesc);
  if (!algo || !e.agree || C != D ||
      !chosen_for(*algo, e, {A, B, C, D}, desc->bias, workspace, workspaceSizeInBytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  hg::emu::queue_work();
  const hg::emu::DeviceAccess open;
  const int m = static_cast<int>(e.m), n = static_cast<int>(e.n), k = static_cast<int>(e.k);
  const Matrix a{static_cast<const float*>(A), static_cast<int>(Adesc->ld), desc->transa};
  const Matrix b{static_cast<const float*>(B), static_cast<int>(Bdesc->ld), desc->transb};
  const int ld = static_cast<int>(Ddesc->ld);
  float* const d = static_cast<float*>(D);
  const float before = *static_cast<const float*>(beta);
  const bool biased = desc->epilogue == CUBLASLT_EPILOGUE_BIAS;
  read("cublasLtMatmul", a.data, stored(a.op, m, k), a.ld);
  read("cublasLtMatmul", b.data, stored(b.op, k, n), b.ld);
  if (before != 0) read("cublasLtMatmul", d, {m, n}, ld);
  if (biased) read("cublasLtMatmul", desc->bias, {m, 1}, m);
  if (algo->workspace > 0) {
    hg::emu::host_wrote(workspace, algo->workspace);
    std::memset(workspace, 0x5A, algo->workspace);
  }
  wrote(d, {m, n}, ld);
  product(m, n, k, *static_cast<const float*>(alpha), a, b, before, d, ld);
  for (int column = 0; biased && column < n; ++column)
    for (int row = 0; row < m; ++row) d[row + std::ptrdiff_t{column} * ld] += desc->bias[row];
  return CUBLAS_STATUS_SUCCESS;
}
