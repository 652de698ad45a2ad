#include "tests/cuda_emu/planted.h"

#include <cuda_runtime.h>

#include <numeric>

namespace hg::emu {
namespace {

constexpr int kThreads = 64;

struct Buffer {
  explicit Buffer(int n) : n(n) { cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(float)); }
  explicit Buffer(const std::vector<float>& values) : Buffer(static_cast<int>(values.size())) {
    cudaMemcpyAsync(data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
  std::vector<float> values() const {
    std::vector<float> v(static_cast<std::size_t>(n));
    cudaMemcpyAsync(v.data(), data, v.size() * sizeof(float), cudaMemcpyDeviceToHost);
    return v;
  }
  float* data = nullptr;
  int n;
};

std::vector<float> numbers(int n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 1.0f);
  return v;
}

template <class... Parameters, class... Arguments>
void start(void (*kernel)(Parameters...), int blocks, int threads, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void read_before_barrier(const float* x, float* y) {
  HG_SHARED(float, tile, [kThreads]);
  const int t = threadIdx.x;
  tile[t] = x[t];
  y[t] = tile[kThreads - 1 - t];
}

__global__ void write_before_barrier(const float* x, float* y) {
  HG_SHARED(float, tile, [kThreads]);
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  y[t] = tile[kThreads - 1 - t];
  tile[t] = 2 * x[t];
  __syncthreads();
  y[t] += tile[kThreads - 1 - t];
}

// 40 KB, beside 16 KB that the launch gives it.
__global__ void too_much_shared(float* y) {
  HG_DYN_SHARED(float, rows);
  HG_SHARED(float, tile, [10 * 1024]);
  rows[threadIdx.x] = tile[threadIdx.x] = 1;
  y[threadIdx.x] = rows[threadIdx.x];
}

__global__ void divergent_barrier(float* y) {
  y[threadIdx.x] = 1;
  if (threadIdx.x % 2 == 0)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void barrier_after_return(float* y, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  y[threadIdx.x] = 1;
  __syncthreads();
}

__global__ void shuffle_outside_mask(float* y) {
  y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 1);
}

__global__ void shuffle_from_absent_lane(float* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 16);
}

__global__ void different_shuffles(float* y) {
  const float v = 1;
  if (threadIdx.x % 2 == 0)
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v, 1);
  else
    y[threadIdx.x] = __shfl_down_sync(0xffffffffu, v, 1);
}

__global__ void barrier_against_shuffle(float* y) {
  if (threadIdx.x == 0) __syncthreads();
  y[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 0);
}

__global__ void write_past_end(float* y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

__global__ void read_past_end(const float* x, float* y, int n) {
  const int i = threadIdx.x;
  if (i < n) y[i] = x[i + 1];
}

__global__ void float4_past_end(float4* y, int n) {
  const int i = threadIdx.x;
  if (4 * i < n) y[i] = make_float4(1, 2, 3, 4);
}

__global__ void write_past_shared(const float* x, float* y) {
  HG_SHARED(float, tile, [kThreads]);
  const int t = threadIdx.x;
  tile[t + 1] = x[t];
  __syncthreads();
  y[t] = tile[t == 0 ? 1 : t];
}

__global__ void everyone_writes(float* y) { y[0] = static_cast<float>(threadIdx.x); }

__global__ void everyone_writes_shared(float* y) {
  HG_SHARED(float, last, [1]);
  last[0] = static_cast<float>(threadIdx.x);
  __syncthreads();
  y[threadIdx.x] = last[0];
}

__global__ void sum_without_atomic(const float* x, float* y) {
  y[0] += x[blockIdx.x * blockDim.x + threadIdx.x];
}

__global__ void shared_sum_without_atomic(const float* x, float* y) {
  HG_SHARED(float, sum, [1]);
  if (threadIdx.x == 0) sum[0] = 0;
  __syncthreads();
  sum[0] += x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) y[0] = sum[0];
}

__global__ void read_unwritten(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

__global__ void read_unwritten_shared(float* y) {
  HG_SHARED(float, tile, [kThreads]);
  if (threadIdx.x > 0) tile[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];
}

__global__ void warp_without_sync(const float* x, float* y) {
  HG_SHARED(float, tile, [32]);
  const int t = threadIdx.x;
  tile[t] = x[t];
  y[t] = tile[t ^ 1];
}

// The same exchanges without the fault.
__global__ void reversed(const float* x, float* y) {
  HG_SHARED(float, tile, [kThreads]);
  const int t = threadIdx.x, first = blockIdx.x * kThreads;
  tile[t] = x[first + t];
  __syncthreads();
  y[first + t] = tile[kThreads - 1 - t];
  __syncthreads();
  tile[t] = 2 * x[first + t];
  __syncthreads();
  y[first + t] += tile[kThreads - 1 - t];
}

__global__ void summed(const float* x, float* y, int n) {
  HG_SHARED(float, partial, [kThreads / 32]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float v = i < n ? x[i] : 0;
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(y, partial[0] + partial[1]);
}

__global__ void doubled_by_four(const float* x, float* y, int n) {
  const int i = 4 * (blockIdx.x * kThreads + threadIdx.x);
  if (i + 4 <= n) {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    *reinterpret_cast<float4*>(y + i) = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
  } else {
    for (int j = i; j < n; ++j) y[j] = 2 * x[j];
  }
}

__global__ void swapped_in_warp(const float* x, float* y) {
  HG_DYN_SHARED(float, tile);
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncwarp();
  y[t] = tile[t ^ 1];
}

void on_64(void (*kernel)(const float*, float*), int threads = kThreads) {
  const Buffer x(numbers(kThreads)), y(kThreads);
  start(kernel, 1, threads, x.data, y.data);
}
void on_64(void (*kernel)(float*), int threads = kThreads, int room = kThreads) {
  const Buffer y(room);
  start(kernel, 1, threads, y.data);
}

void use_after_free() {
  const Buffer y(kThreads);
  float* gone = nullptr;
  {
    const Buffer x(numbers(kThreads));
    gone = x.data;
  }
  start(read_unwritten, 1, kThreads, gone, y.data);
}

void touch_from_host() {
  const Buffer y(numbers(kThreads));
  const volatile float* const device = y.data;
  const float seen = device[3];
  static_cast<void>(seen);
}

bool reverses() {
  const Buffer x(numbers(3 * kThreads)), y(3 * kThreads);
  start(reversed, 3, kThreads, x.data, y.data);
  const std::vector<float> values = y.values();
  for (int i = 0; i < y.n; ++i)
    if (values[static_cast<std::size_t>(i)] !=
        3.0f * static_cast<float>(i / kThreads * kThreads + kThreads - i % kThreads))
      return false;
  return true;
}

bool sums() {
  const int n = 197;
  const Buffer x(numbers(n)), y(std::vector<float>{0});
  start(summed, 4, kThreads, x.data, y.data, n);
  return y.values()[0] == n * (n + 1) / 2;
}

bool doubles() {
  const int n = 197;
  const Buffer x(numbers(n)), y(n);
  start(doubled_by_four, 1, kThreads, x.data, y.data, n);
  const std::vector<float> values = y.values();
  for (int i = 0; i < n; ++i)
    if (values[static_cast<std::size_t>(i)] != 2.0f * static_cast<float>(i + 1)) return false;
  return true;
}

bool swaps() {
  const Buffer x(numbers(32)), y(32);
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(32);
  config.dynamicSmemBytes = 32 * sizeof(float);
  cudaLaunchKernelEx(&config, swapped_in_warp, x.data, y.data);
  return y.values()[6] == 8;
}

}  // namespace

const std::vector<Planted>& planted_faults() {
  static const std::vector<Planted> all{
      {"read_before_barrier", race, "shared memory", [] { on_64(read_before_barrier); }},
      {"write_before_barrier", race, "race in shared", [] { on_64(write_before_barrier); }},
      {"divergent_barrier", every, "divergent barrier", [] { on_64(divergent_barrier); }},
      {"barrier_after_return", every, "divergent barrier",
       [] {
         const Buffer y(kThreads);
         start(barrier_after_return, 1, kThreads, y.data, 50);
       }},
      {"shuffle_outside_mask", every, "not in the mask", [] { on_64(shuffle_outside_mask); }},
      {"shuffle_from_absent_lane", every, "does not take part",
       [] { on_64(shuffle_from_absent_lane); }},
      {"different_shuffles", every, "different things", [] { on_64(different_shuffles); }},
      {"barrier_against_shuffle", every, "deadlock", [] { on_64(barrier_against_shuffle); }},
      {"write_past_end", every, "past the end", [] { on_64(write_past_end, kThreads, 61); }},
      {"read_past_end", every, "past the end",
       [] {
         const Buffer x(numbers(50)), y(50);
         start(read_past_end, 1, kThreads, x.data, y.data, 50);
       }},
      {"float4_past_end", every, "past the end",
       [] {
         const Buffer y(61);
         start(float4_past_end, 1, kThreads, reinterpret_cast<float4*>(y.data), 61);
       }},
      {"write_past_shared", every, "of shared memory", [] { on_64(write_past_shared); }},
      {"too_much_shared", every, "bytes of shared memory, at most",
       [] {
         const Buffer y(kThreads);
         cudaLaunchConfig_t config{};
         config.blockDim = dim3(kThreads);
         config.dynamicSmemBytes = 16 * 1024;
         cudaLaunchKernelEx(&config, too_much_shared, y.data);
       }},
      {"everyone_writes", race, "race in global", [] { on_64(everyone_writes); }},
      {"everyone_writes_shared", race, "race in shared", [] { on_64(everyone_writes_shared); }},
      {"sum_without_atomic", race, "race in global",
       [] {
         const Buffer x(numbers(4)), y(std::vector<float>{0});
         start(sum_without_atomic, 4, 1, x.data, y.data);
       }},
      {"shared_sum_without_atomic", race, "race in shared",
       [] { on_64(shared_sum_without_atomic); }},
      {"read_unwritten", race, "uninitialised global",
       [] {
         const Buffer x(kThreads), y(kThreads);
         start(read_unwritten, 1, kThreads, x.data, y.data);
       }},
      {"read_unwritten_shared", race, "uninitialised shared", [] { on_64(read_unwritten_shared); }},
      {"warp_without_sync", race, "shared memory", [] { on_64(warp_without_sync, 32); }},
      {"read_unwritten", every, "freed", use_after_free},
      {"touch_from_host", every, "host access to device memory", touch_from_host},
  };
  return all;
}

const std::vector<Correct>& correct_kernels() {
  static const std::vector<Correct> all{
      {"reversed", reverses}, {"summed", sums}, {"doubled", doubles}, {"swapped", swaps}};
  return all;
}

}  // namespace hg::emu
