// Device functions of CUDA on the emulated device; included by the stand-in cuda_runtime.h alone.
#pragma once

#include <bit>
#include <cstring>

#include "tests/cuda_emu/block.h"

#define HG_EMU_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(HG_EMU_PLACE) { hg::emu::barrier({file, line}); }
inline void __syncwarp(unsigned mask = 0xffffffffu, HG_EMU_PLACE) {
  hg::emu::warp_call({hg::emu::WarpOp::sync, mask, 0, 0, 32, {file, line}});
}
inline void __threadfence() {}

namespace hg::emu {
template <class T>
T shuffle(WarpOp op, unsigned mask, T value, int argument, int width, const Place& place) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_call({op, mask, bits, argument, width, place});
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace hg::emu

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, HG_EMU_PLACE) {
  return hg::emu::shuffle(hg::emu::WarpOp::shfl, mask, value, lane, width, {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HG_EMU_PLACE) {
  return hg::emu::shuffle(hg::emu::WarpOp::shfl_up, mask, value, static_cast<int>(delta), width,
                          {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, HG_EMU_PLACE) {
  return hg::emu::shuffle(hg::emu::WarpOp::shfl_down, mask, value, static_cast<int>(delta), width,
                          {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, HG_EMU_PLACE) {
  return hg::emu::shuffle(hg::emu::WarpOp::shfl_xor, mask, value, lanes, width, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, HG_EMU_PLACE) {
  return static_cast<unsigned>(
      hg::emu::warp_call({hg::emu::WarpOp::ballot, mask, predicate != 0, 0, 32, {file, line}}));
}
inline int __any_sync(unsigned mask, int predicate, HG_EMU_PLACE) {
  return static_cast<int>(
      hg::emu::warp_call({hg::emu::WarpOp::any, mask, predicate != 0, 0, 32, {file, line}}));
}
inline int __all_sync(unsigned mask, int predicate, HG_EMU_PLACE) {
  return static_cast<int>(
      hg::emu::warp_call({hg::emu::WarpOp::all, mask, predicate != 0, 0, 32, {file, line}}));
}

// Not instrumented: each counts as one access for the race detector.
float atomicAdd(float* p, float v);
int atomicAdd(int* p, int v);
unsigned atomicAdd(unsigned* p, unsigned v);

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  const double angle = 3.14159265358979323846 * static_cast<double>(x);
  *sine = static_cast<float>(std::sin(angle));
  *cosine = static_cast<float>(std::cos(angle));
}
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
template <class T>
T __ldg(const T* p) {
  return *p;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
