// Counter-based random numbers: Philox4x32-10 (Salmon et al., 2011). A draw is a pure function of
// (key, counter), so any thread or device computes any part of a stream, and gets the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace hg {

using PhiloxBlock = std::array<std::uint32_t, 4>;
PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// Uniform in [0,1) on a grid of 2^-24: exact in f32, the same on every device.
inline float uniform_from_bits(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

// A named stream of a seed. Streams of different names or seeds are independent; position counts
// 32-bit draws and can be saved and set, so a run resumes where it was.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  std::uint64_t key() const { return key_; }
  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position) { position_ = position; }
  // Reserves n draws for a kernel that computes them itself; returns the first one's position.
  std::uint64_t take(std::uint64_t n);

  std::uint32_t bits() { return draw(take(1)); }
  float uniform() { return uniform_from_bits(bits()); }
  std::uint64_t below(std::uint64_t n);  // unbiased integer in [0, n)
  double normal();                       // Box-Muller on two draws

  std::uint32_t draw(std::uint64_t position) const;  // the stream's draw there, without moving

 private:
  std::uint64_t key_;
  std::uint64_t position_ = 0;
};

// A stream's draw, for kernels: four consecutive draws share one Philox block.
PhiloxBlock draw_block(std::uint64_t key, std::uint64_t block);

// Replace the contents of a tensor on the CPU by the stream's next draws.
void fill_uniform(const Tensor& t, RandomStream& stream, double low, double high);
void fill_normal(const Tensor& t, RandomStream& stream, double mean, double stddev);

}  // namespace hg
