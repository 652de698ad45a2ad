// The draws of tensor/random.h on the device: the same bits.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace hg::cuda {

// The four draws of a block of a stream, as hg::draw_block gives them.
__device__ inline uint4 draw_block(std::uint64_t key, std::uint64_t block) {
  auto k0 = static_cast<unsigned>(key), k1 = static_cast<unsigned>(key >> 32);
  uint4 c{static_cast<unsigned>(block), static_cast<unsigned>(block >> 32), 0, 0};
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = uint4{high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0};
  }
  return c;
}

// Draw `position` of the stream.
__device__ inline unsigned draw_at(std::uint64_t key, std::uint64_t position) {
  const uint4 draws = draw_block(key, position / 4);
  const auto word = static_cast<unsigned>(position % 4);
  return word == 0 ? draws.x : word == 1 ? draws.y : word == 2 ? draws.z : draws.w;
}

// Dropout of weights, by the draws of a stream.
struct DropDraws {
  bool on = false;
  std::uint64_t key = 0, first = 0;
  unsigned threshold = 0;
  float scale = 1;

  DropDraws() = default;
  DropDraws(double probability, std::uint64_t key, std::uint64_t first)
      : on(probability > 0),
        key(key),
        first(first),
        threshold(static_cast<unsigned>(std::ceil(probability * 0x1p24))),
        scale(static_cast<float>(1 / (1 - probability))) {}
  // 1 / (1 - p) where weight `place` is kept, else 0.
  __device__ float kept(std::int64_t place) const {
    if (!on) return 1;
    return draw_at(key, first + static_cast<std::uint64_t>(place)) >> 8 >= threshold ? scale : 0;
  }
};

}  // namespace hg::cuda
