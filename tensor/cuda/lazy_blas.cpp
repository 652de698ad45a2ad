// The functions of cuBLAS and cublasLt in use, which load these libraries when first called: they
// are 600 MB, and a program that runs on the CPU, or shows its help, has no use for them.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>

#include <string>

#include "tensor/base/error.h"

namespace {

// Where the system finds it, or else where it was when this was compiled.
void* load(const std::string& name) {
  for (const std::string& path : {name, HG_CUDA_LIBRARIES "/" + name})
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* const fault = dlerror();
  hg::fail("cuda", "cannot load {}: {}", name, fault ? fault : "no reason given");
}

template <class Function>
Function find(const char* library, const char* name) {
  void* const found = dlsym(load(fmt::format("{}.so.{}", library, CUBLAS_VER_MAJOR)), name);
  hg::require(found != nullptr, "cuda", "{} has no function {}", library, name);
  return reinterpret_cast<Function>(found);
}

}  // namespace

// HG_LAZY(library, function, (its parameters), the arguments...)
#define HG_LAZY(library, name, parameters, ...)                            \
  cublasStatus_t name parameters {                                         \
    static const auto real = find<decltype(&name)>("lib" #library, #name); \
    return real(__VA_ARGS__);                                              \
  }

extern "C" {

HG_LAZY(cublas, cublasCreate_v2, (cublasHandle_t * blas), blas)
HG_LAZY(cublas, cublasDestroy_v2, (cublasHandle_t blas), blas)
HG_LAZY(cublas, cublasSetStream_v2, (cublasHandle_t blas, cudaStream_t stream), blas, stream)
HG_LAZY(cublas, cublasSetMathMode, (cublasHandle_t blas, cublasMath_t mode), blas, mode)
HG_LAZY(cublas, cublasSgemmStridedBatched,
        (cublasHandle_t blas, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
         const float* alpha, const float* a, int ld_a, long long stride_a, const float* b, int ld_b,
         long long stride_b, const float* beta, float* c, int ld_c, long long stride_c, int batch),
        blas, op_a, op_b, m, n, k, alpha, a, ld_a, stride_a, b, ld_b, stride_b, beta, c, ld_c,
        stride_c, batch)

HG_LAZY(cublasLt, cublasLtCreate, (cublasLtHandle_t * blas), blas)
HG_LAZY(cublasLt, cublasLtMatrixLayoutInit_internal,
        (cublasLtMatrixLayout_t layout, std::size_t size, cudaDataType type, std::uint64_t rows,
         std::uint64_t columns, std::int64_t ld),
        layout, size, type, rows, columns, ld)
HG_LAZY(cublasLt, cublasLtMatmulDescInit_internal,
        (cublasLtMatmulDesc_t product, std::size_t size, cublasComputeType_t compute,
         cudaDataType_t scale),
        product, size, compute, scale)
HG_LAZY(cublasLt, cublasLtMatmulDescSetAttribute,
        (cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const void* value,
         std::size_t size),
        product, attribute, value, size)
HG_LAZY(cublasLt, cublasLtMatmulPreferenceInit_internal,
        (cublasLtMatmulPreference_t preference, std::size_t size), preference, size)
HG_LAZY(cublasLt, cublasLtMatmulPreferenceSetAttribute,
        (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const void* value, std::size_t size),
        preference, attribute, value, size)
HG_LAZY(cublasLt, cublasLtMatmulAlgoGetHeuristic,
        (cublasLtHandle_t blas, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
         cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t* found,
         int* count),
        blas, product, a, b, c, d, preference, most, found, count)
HG_LAZY(cublasLt, cublasLtMatmul,
        (cublasLtHandle_t blas, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
         cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b,
         const void* beta, const void* c, cublasLtMatrixLayout_t layout_c, void* d,
         cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
         std::size_t bytes, cudaStream_t stream),
        blas, product, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d, algorithm,
        workspace, bytes, stream)

}  // extern "C"
