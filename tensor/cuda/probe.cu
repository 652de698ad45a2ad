// A first launch, before anything depends on one.
#include "tensor/cuda/device.h"

namespace hg::cuda {
namespace {

constexpr int kAnswer = 197;

__global__ void give_answer(int* to) { *to = kAnswer; }

cudaError_t ask(int* to) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  int answer = 0;
  cudaError_t error = cudaLaunchKernelEx(&config, give_answer, to);
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(&answer, to, sizeof answer, cudaMemcpyDeviceToHost, nullptr);
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  return error == cudaSuccess && answer != kAnswer ? cudaErrorInvalidDeviceFunction : error;
}

}  // namespace

cudaError_t probe() {
  void* to = nullptr;
  if (const cudaError_t error = cudaMalloc(&to, sizeof(int)); error != cudaSuccess) return error;
  const cudaError_t error = ask(static_cast<int*>(to));
  static_cast<void>(cudaFree(to));
  static_cast<void>(cudaGetLastError());  // or it would be reported again by the next launch
  return error;
}

}  // namespace hg::cuda
