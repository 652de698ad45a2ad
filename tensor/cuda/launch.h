// What .cu files start kernels with, and how they declare shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "tensor/cuda/check.h"
#include "tensor/cuda/stream.h"

// HG_SHARED(float, tile, [8][33]) and, for the bytes given to launch(), HG_DYN_SHARED(float, rows).
// The emulated device brings its own.
#ifndef HG_SHARED
#define HG_SHARED(T, name, dims) __shared__ __align__(16) T name dims
#define HG_DYN_SHARED(T, name)                                       \
  extern __shared__ __align__(16) unsigned char hg_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(hg_dynamic_shared)
#endif

namespace hg {

template <class Parameter, class Argument>
concept FitsParameter = requires(Argument argument) {
  std::remove_cv_t<Parameter>{argument};
};

// Starts kernel(arguments...) on the stream; an empty grid is nothing to do. Arguments must fit
// without narrowing: no int64 to int, no double to float.
template <class... Parameters, class... Arguments>
requires(sizeof...(Parameters) == sizeof...(Arguments) &&
         (FitsParameter<Parameters, Arguments> &&
          ...)) void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                            std::size_t shared_bytes, CudaStream& stream, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream.handle();
  stream.count_work();
  cuda::check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "launch");
}

namespace cuda {

// Blocks of `threads` for n items, refused beyond a grid's limit.
inline unsigned blocks_for(std::int64_t n, int threads) {
  const std::int64_t blocks = (n + threads - 1) / threads;
  require(blocks <= 0x7fffffff, "launch", "{} blocks are more than a grid holds", blocks);
  return static_cast<unsigned>(blocks);
}

}  // namespace cuda
}  // namespace hg
