// Dropout of a stretch of elements, by the draws of a stream (tensor/random.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tensor/cpu/philox.h"

namespace hg::cpu {

// Element i is kept if draw `position` + i is not below p. A draw's upper 24 bits are its uniform
// number, so the threshold is p 2^24.
struct DropRule {
  std::uint64_t key;
  double probability;

  std::uint32_t threshold() const {
    return static_cast<std::uint32_t>(std::ceil(probability * 0x1p24));
  }
  double scale() const { return 1 / (1 - probability); }
};

// y[i] = x[i] * (scale or 0) for n elements. y may be x.
template <class T>
void drop(const DropRule& rule, std::uint64_t position, std::int64_t n, const T* x, T* y) {
  const std::uint32_t threshold = rule.threshold();
  const T scale = static_cast<T>(rule.scale());
  std::uint32_t draws[kPhiloxDraws];
  std::int64_t skip = static_cast<std::int64_t>(position % 4);
  std::uint64_t block = position / 4;
  for (std::int64_t done = 0; done < n; block += kPhiloxBlocks, skip = 0) {
    draw_blocks(rule.key, block, draws);
    const std::int64_t now = std::min(n - done, kPhiloxDraws - skip);
    for (std::int64_t i = 0; i < now; ++i)
      y[done + i] = x[done + i] * (draws[skip + i] >> 8 >= threshold ? scale : T{0});
    done += now;
  }
}

}  // namespace hg::cpu
