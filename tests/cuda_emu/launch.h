// Launching a kernel on the emulated device; included by the stand-in cuda_runtime.h alone.
#pragma once

#include "tests/cuda_emu/block.h"
#include "tests/cuda_emu/queue.h"

namespace hg::emu {
cudaError_t check_launch(const cudaLaunchConfig_t& config);  // as the driver would refuse it
}

// Returns an error for what a real device refuses to launch; throws hg::emu::Fault for what the
// kernel did wrong.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (const cudaError_t error = hg::emu::check_launch(*config); error != cudaSuccess) return error;
  const std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  const auto run = [kernel, values, grid = config->gridDim, block = config->blockDim,
                    bytes = config->dynamicSmemBytes] {
    hg::emu::run_kernel({reinterpret_cast<const void*>(kernel), grid, block, bytes},
                        [&] { std::apply(kernel, values); });
    return true;
  };
  if (hg::emu::is_late(config->stream))
    hg::emu::put_off(config->stream, run);
  else
    run();
  return cudaSuccess;
}

// A heap block of exact size in place of a __shared__ array; one for each declaration.
#define HG_SHARED(T, name, dims)                    \
  using name##_array = T dims;                      \
  static const char name##_declaration = 0;         \
  name##_array& name = *static_cast<name##_array*>( \
      hg::emu::shared_memory(&name##_declaration, sizeof(name##_array)))
#define HG_DYN_SHARED(T, name) T* const name = static_cast<T*>(hg::emu::dynamic_shared_memory())
