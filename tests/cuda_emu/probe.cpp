// Compiled against the stand-in headers, and against CUDA's own where they are installed: what
// holds in both keeps the two from drifting apart.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace {

static_assert(sizeof(dim3) == 12 && alignof(dim3) == 4 && sizeof(uint3) == 12);
static_assert(sizeof(float2) == 8 && alignof(float2) == 8);
static_assert(sizeof(float4) == 16 && alignof(float4) == 16);
static_assert(sizeof(uint4) == 16 && alignof(uint4) == 16);
static_assert(offsetof(float4, y) == 4 && offsetof(float4, w) == 12);
static_assert(std::is_same_v<decltype(dim3::x), unsigned>);
static_assert(std::is_same_v<decltype(uint3::x), unsigned>);
static_assert(std::is_same_v<decltype(make_float4(1, 2, 3, 4)), float4>);

static_assert(std::is_same_v<cudaError_t, cudaError>);
static_assert(cudaSuccess == 0 && cudaErrorInvalidValue == 1 && cudaErrorMemoryAllocation == 2);
static_assert(cudaErrorInvalidConfiguration == 9 && cudaErrorInsufficientDriver == 35);
static_assert(cudaErrorNoDevice == 100 && cudaErrorInvalidDevice == 101);
static_assert(cudaErrorNotReady == 600 && cudaErrorInvalidDeviceFunction == 98);
static_assert(cudaErrorNoKernelImageForDevice == 209 && cudaErrorUnsupportedPtxVersion == 222);
static_assert(cudaDevAttrClockRate == 13 && cudaDevAttrMultiProcessorCount == 16);
static_assert(cudaDevAttrMemoryClockRate == 36 && cudaDevAttrGlobalMemoryBusWidth == 37);
static_assert(cudaDevAttrComputeCapabilityMajor == 75 && cudaDevAttrComputeCapabilityMinor == 76);
static_assert(offsetof(cudaDeviceProp, name) == 0 && sizeof(cudaDeviceProp::name) == 256);
static_assert(offsetof(cudaDeviceProp, uuid) == 256 && sizeof(cudaUUID_t::bytes) == 16);
static_assert(cudaMemcpyHostToHost == 0 && cudaMemcpyHostToDevice == 1);
static_assert(cudaMemcpyDeviceToHost == 2 && cudaMemcpyDeviceToDevice == 3);
static_assert(cudaMemcpyDefault == 4);
static_assert(cudaStreamNonBlocking == 1 && cudaEventDefault == 0 && cudaEventDisableTiming == 2);
static_assert(cudaEventBlockingSync == 1 && cudaDeviceScheduleBlockingSync == 4);
static_assert(std::is_same_v<cudaStream_t, CUstream_st*> &&
              std::is_same_v<cudaEvent_t, CUevent_st*>);

static_assert(std::is_same_v<decltype(cudaLaunchConfig_t::gridDim), dim3>);
static_assert(std::is_same_v<decltype(cudaLaunchConfig_t::blockDim), dim3>);
static_assert(std::is_same_v<decltype(cudaLaunchConfig_t::dynamicSmemBytes), std::size_t>);
static_assert(std::is_same_v<decltype(cudaLaunchConfig_t::stream), cudaStream_t>);
static_assert(sizeof(cudaLaunchConfig_t) == 56);

static_assert(CUBLAS_STATUS_SUCCESS == 0 && CUBLAS_STATUS_NOT_INITIALIZED == 1);
static_assert(CUBLAS_STATUS_INVALID_VALUE == 7 && CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1);
static_assert(CUBLAS_DEFAULT_MATH == 0 && CUBLAS_TF32_TENSOR_OP_MATH == 3);
static_assert(std::is_same_v<cublasHandle_t, cublasContext*>);
static_assert(CUBLAS_STATUS_NOT_SUPPORTED == 15 && CUDA_R_32F == 0);
static_assert(CUBLAS_COMPUTE_32F == 68 && CUBLAS_COMPUTE_32F_FAST_TF32 == 77);
static_assert(CUBLASLT_EPILOGUE_DEFAULT == 1 && CUBLASLT_EPILOGUE_BIAS == 4);
static_assert(CUBLASLT_MATMUL_DESC_TRANSB == 4);
static_assert(CUBLASLT_MATMUL_DESC_TRANSA == 3 && CUBLASLT_MATMUL_DESC_EPILOGUE == 7);
static_assert(CUBLASLT_MATMUL_DESC_BIAS_POINTER == 8);
static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == 1);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES == 5);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES == 6);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES == 7);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == 8);
static_assert(sizeof(cublasLtEpilogue_t) == 4 && sizeof(cublasOperation_t) == 4);
static_assert(sizeof(cublasLtMatmulDescOpaque_t) == 256);
static_assert(sizeof(cublasLtMatrixLayoutOpaque_t) == 64 && sizeof(cublasLtMatmulAlgo_t) == 64);
static_assert(sizeof(cublasLtMatmulPreferenceOpaque_t) == 64);
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96);
static_assert(
    std::is_same_v<decltype(cublasLtMatmulHeuristicResult_t::workspaceSize), std::size_t>);
static_assert(std::is_same_v<decltype(cublasLtMatmulHeuristicResult_t::state), cublasStatus_t>);
static_assert(std::is_same_v<cublasLtHandle_t, cublasLtContext*>);

// Functions of exactly these types.
[[maybe_unused]] const char* (*const error_name)(cudaError_t) = cudaGetErrorName;
[[maybe_unused]] const char* (*const error_string)(cudaError_t) = cudaGetErrorString;
[[maybe_unused]] cudaError_t (*const last_error)() = cudaGetLastError;
[[maybe_unused]] cudaError_t (*const device_count)(int*) = cudaGetDeviceCount;
[[maybe_unused]] cudaError_t (*const set_device)(int) = cudaSetDevice;
[[maybe_unused]] cudaError_t (*const driver_version)(int*) = cudaDriverGetVersion;
[[maybe_unused]] cudaError_t (*const runtime_version)(int*) = cudaRuntimeGetVersion;
[[maybe_unused]] cudaError_t (*const set_flags)(unsigned) = cudaSetDeviceFlags;
[[maybe_unused]] cudaError_t (*const attribute)(int*, cudaDeviceAttr, int) = cudaDeviceGetAttribute;
[[maybe_unused]] cudaError_t (*const properties)(cudaDeviceProp*, int) = cudaGetDeviceProperties;
[[maybe_unused]] cudaError_t (*const memory)(std::size_t*, std::size_t*) = cudaMemGetInfo;
[[maybe_unused]] cudaError_t (*const wait)() = cudaDeviceSynchronize;
[[maybe_unused]] cudaError_t (*const allocate)(void**, std::size_t) = cudaMalloc;
[[maybe_unused]] cudaError_t (*const release)(void*) = cudaFree;
[[maybe_unused]] cudaError_t (*const allocate_host)(void**, std::size_t) = cudaMallocHost;
[[maybe_unused]] cudaError_t (*const release_host)(void*) = cudaFreeHost;
[[maybe_unused]] cudaError_t (*const copy)(void*, const void*, std::size_t, cudaMemcpyKind,
                                           cudaStream_t) = cudaMemcpyAsync;
[[maybe_unused]] cudaError_t (*const fill)(void*, int, std::size_t, cudaStream_t) = cudaMemsetAsync;
[[maybe_unused]] cudaError_t (*const make_stream)(cudaStream_t*,
                                                  unsigned) = cudaStreamCreateWithFlags;
[[maybe_unused]] cudaError_t (*const end_stream)(cudaStream_t) = cudaStreamDestroy;
[[maybe_unused]] cudaError_t (*const wait_stream)(cudaStream_t) = cudaStreamSynchronize;
[[maybe_unused]] cudaError_t (*const hold_stream)(cudaStream_t, cudaEvent_t,
                                                  unsigned) = cudaStreamWaitEvent;
[[maybe_unused]] cudaError_t (*const get_device)(int*) = cudaGetDevice;
[[maybe_unused]] cudaError_t (*const bus_id)(char*, int, int) = cudaDeviceGetPCIBusId;
[[maybe_unused]] cudaError_t (*const make_event)(cudaEvent_t*, unsigned) = cudaEventCreateWithFlags;
[[maybe_unused]] cudaError_t (*const end_event)(cudaEvent_t) = cudaEventDestroy;
[[maybe_unused]] cudaError_t (*const record)(cudaEvent_t, cudaStream_t) = cudaEventRecord;
[[maybe_unused]] cudaError_t (*const query)(cudaEvent_t) = cudaEventQuery;
[[maybe_unused]] cudaError_t (*const wait_event)(cudaEvent_t) = cudaEventSynchronize;
[[maybe_unused]] cudaError_t (*const elapsed)(float*, cudaEvent_t,
                                              cudaEvent_t) = cudaEventElapsedTime;
[[maybe_unused]] cublasStatus_t (*const make_blas)(cublasHandle_t*) = cublasCreate;
[[maybe_unused]] cublasStatus_t (*const end_blas)(cublasHandle_t) = cublasDestroy;
[[maybe_unused]] cublasStatus_t (*const set_stream)(cublasHandle_t, cudaStream_t) = cublasSetStream;
[[maybe_unused]] cublasStatus_t (*const set_math)(cublasHandle_t, cublasMath_t) = cublasSetMathMode;
[[maybe_unused]] cublasStatus_t (*const product)(cublasHandle_t, cublasOperation_t,
                                                 cublasOperation_t, int, int, int, const float*,
                                                 const float*, int, long long, const float*, int,
                                                 long long, const float*, float*, int, long long,
                                                 int) = cublasSgemmStridedBatched;
[[maybe_unused]] cublasStatus_t (*const make_lt)(cublasLtHandle_t*) = cublasLtCreate;
[[maybe_unused]] cublasStatus_t (*const set_layout)(cublasLtMatrixLayout_t, cudaDataType,
                                                    std::uint64_t, std::uint64_t,
                                                    std::int64_t) = cublasLtMatrixLayoutInit;
[[maybe_unused]] cublasStatus_t (*const set_product)(cublasLtMatmulDesc_t, cublasComputeType_t,
                                                     cudaDataType) = cublasLtMatmulDescInit;
[[maybe_unused]] cublasStatus_t (*const set_of_product)(
    cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
    std::size_t) = cublasLtMatmulDescSetAttribute;
[[maybe_unused]] cublasStatus_t (*const set_preference)(cublasLtMatmulPreference_t) =
    cublasLtMatmulPreferenceInit;
[[maybe_unused]] cublasStatus_t (*const set_of_preference)(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*,
    std::size_t) = cublasLtMatmulPreferenceSetAttribute;
[[maybe_unused]] cublasStatus_t (*const choose)(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                cublasLtMatmulPreference_t, int,
                                                cublasLtMatmulHeuristicResult_t*,
                                                int*) = cublasLtMatmulAlgoGetHeuristic;
[[maybe_unused]] cublasStatus_t (*const matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*,
                                                const void*, cublasLtMatrixLayout_t, const void*,
                                                cublasLtMatrixLayout_t, const void*, const void*,
                                                cublasLtMatrixLayout_t, void*,
                                                cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*,
                                                void*, std::size_t, cudaStream_t) = cublasLtMatmul;

#if __has_include(<nccl.h>)
static_assert(ncclSuccess == 0 && ncclRemoteError == 6 && ncclInProgress == 7 && ncclFloat32 == 7);
static_assert(sizeof(ncclUniqueId) == 128 && std::is_same_v<ncclComm_t, ncclComm*>);
[[maybe_unused]] const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
static_assert(std::is_same_v<decltype(ncclConfig_t::blocking), int>);
static_assert(std::is_same_v<decltype(ncclConfig_t::magic), unsigned>);
[[maybe_unused]] const char* (*const nccl_error)(ncclResult_t) = ncclGetErrorString;
[[maybe_unused]] ncclResult_t (*const nccl_id)(ncclUniqueId*) = ncclGetUniqueId;
[[maybe_unused]] ncclResult_t (*const connect)(ncclComm_t*, int, ncclUniqueId, int,
                                               ncclConfig_t*) = ncclCommInitRankConfig;
[[maybe_unused]] ncclResult_t (*const nccl_state)(ncclComm_t,
                                                  ncclResult_t*) = ncclCommGetAsyncError;
[[maybe_unused]] ncclResult_t (*const finalize)(ncclComm_t) = ncclCommFinalize;
[[maybe_unused]] ncclResult_t (*const destroy)(ncclComm_t) = ncclCommDestroy;
[[maybe_unused]] ncclResult_t (*const abort_all)(ncclComm_t) = ncclCommAbort;
[[maybe_unused]] ncclResult_t (*const begin_group)() = ncclGroupStart;
[[maybe_unused]] ncclResult_t (*const end_group)() = ncclGroupEnd;
[[maybe_unused]] ncclResult_t (*const send)(const void*, std::size_t, ncclDataType_t, int,
                                            ncclComm_t, cudaStream_t) = ncclSend;
[[maybe_unused]] ncclResult_t (*const receive)(void*, std::size_t, ncclDataType_t, int, ncclComm_t,
                                               cudaStream_t) = ncclRecv;
#endif

// The launch template takes a kernel and its arguments.
[[maybe_unused]] cudaError_t launch(void (*kernel)(const float*, int), const float* p) {
  cudaLaunchConfig_t config{};
  return cudaLaunchKernelEx(&config, kernel, p, 3);
}

}  // namespace
