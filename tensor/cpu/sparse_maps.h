// Sparse replacements of softmax on one row, in place, after Martins & Astudillo (2016) and Peters,
// Niculae & Martins (2019). Each returns its threshold, from which the backward pass finds the
// weights again without sorting.
#pragma once

#include "tensor/cpu/vector_math.h"

namespace hg::cpu {

// The candidates of the support, largest first: nothing at or below `floor` can be in it.
template <class T>
std::int64_t sorted_candidates(std::int64_t n, const T* z, T floor, T* sorted) {
  std::int64_t count = 0;
  for (std::int64_t j = 0; j < n; ++j)
    if (z[j] > floor) sorted[count++] = z[j];
  std::sort(sorted, sorted + count, [](T a, T b) { return a > b; });
  return count;
}

// max(z - t, 0) and, for entmax, its square
template <class T>
void sparsemax_weights(std::int64_t n, T threshold, const T* z, T* y) {
  const auto t = ei::pset1<Packet<T>>(threshold);
  map(
      n, y, [&](auto x) { return ei::pmax(ei::psub(x, t), splat<Packet<T>>(0.0)); }, z);
}
template <class T>
void entmax15_roots(std::int64_t n, T threshold, const T* z, T* u) {
  const auto t = ei::pset1<Packet<T>>(threshold), zero = splat<Packet<T>>(0.0);
  map(
      n, u, [&](auto x) { return ei::pmax(ei::psub(ei::pmul(x, splat<Packet<T>>(0.5)), t), zero); },
      z);
}

// With z sorted: the largest k such that 1 + k z_k > z_1 + .. + z_k gives t = (that sum - 1) / k.
template <class T>
T sparsemax_threshold(std::int64_t n, const T* z, T* sorted) {
  const T top = row_max(n, z);
  const std::int64_t count = sorted_candidates(n, z, top - 1, sorted);
  T sum = 0, threshold = top - 1;
  for (std::int64_t k = 1; k <= count; ++k) {
    const T x = sorted[k - 1] - top;
    sum += x;
    if (1 + static_cast<T>(k) * x <= sum) break;
    threshold = top + (sum - 1) / static_cast<T>(k);
  }
  return threshold;
}

// On x = (z - max) / 2, sorted: with mean and mean square of the first k,
// t_k = mean - sqrt(max(0, (1 - k (square - mean^2)) / k)); the last k with t_k <= x_k holds.
// The result is of z / 2: weights are max(z / 2 - t, 0)^2.
template <class T>
T entmax15_threshold(std::int64_t n, const T* z, T* sorted) {
  const T top = row_max(n, z);
  const std::int64_t count = sorted_candidates(n, z, top - 2, sorted);
  T sum = 0, squares = 0, threshold = -1;
  for (std::int64_t k = 1; k <= count; ++k) {
    const T x = (sorted[k - 1] - top) / 2, size = static_cast<T>(k);
    sum += x;
    squares += x * x;
    const T mean = sum / size, spread = size * (squares / size - mean * mean);
    const T t = mean - std::sqrt(std::max(T{0}, (1 - spread) / size));
    if (t > x) break;
    threshold = t;
  }
  return threshold + top / 2;
}

}  // namespace hg::cpu
