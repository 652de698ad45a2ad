// Draws of a stream (tensor/random.h) several blocks at a time. Each 64-bit lane holds one 32-bit
// word of one block's state in its lower half; the upper half is ignored, so that a round is two
// widening products, two shifts and four exclusive ors for four blocks.
#pragma once

#include <cstdint>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace hg::cpu {

using Words = std::uint64_t __attribute__((vector_size(32)));

// Product of the lower halves. Without the instruction's name g++ takes three products for one.
inline void multiply_low(const Words& a, std::uint32_t factor, Words& product) {
  const Words b = Words{} + factor;
#ifdef __AVX2__
  product = reinterpret_cast<Words>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  product = (a & 0xffffffffu) * b;
#endif
}

// draws[4 l + w] = draw_block(key, block + l)[w] for l < 4
inline void draw_four_blocks(std::uint64_t key, std::uint64_t block, std::uint32_t* draws) {
  Words c0 = Words{0, 1, 2, 3} + block, c1 = c0 >> 32, c2{}, c3{}, p0, p1;
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    multiply_low(c0, 0xD2511F53u, p0);
    multiply_low(c2, 0xCD9E8D57u, p1);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c1 = p1;
    c3 = p0;
  }
  const Words a = (c0 & 0xffffffffu) | c1 << 32, b = (c2 & 0xffffffffu) | c3 << 32;
  const Words first = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Words second = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  std::memcpy(draws, &first, sizeof(Words));
  std::memcpy(draws + 8, &second, sizeof(Words));
}

inline constexpr int kPhiloxBlocks = 16;
inline constexpr int kPhiloxDraws = 4 * kPhiloxBlocks;

// The draws of kPhiloxBlocks consecutive blocks.
inline void draw_blocks(std::uint64_t key, std::uint64_t first, std::uint32_t* draws) {
  for (std::uint64_t l = 0; l < kPhiloxBlocks; l += 4)
    draw_four_blocks(key, first + l, draws + 4 * l);
}

}  // namespace hg::cpu
