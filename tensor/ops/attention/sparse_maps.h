// Sparse replacements of softmax on one row: sparsemax (Martins & Astudillo, 2016) and entmax of
// order 1.5 (Peters, Niculae & Martins, 2019). Their weights follow from a threshold, which is
// searched for in passes over the row instead of sorting it; the backward pass takes it as it is.
#pragma once

#include "tensor/cpu/vector_math.h"

namespace hg::cpu {

// max(z - t, 0) and, for entmax, its square
template <class T>
void sparsemax_weights(std::int64_t n, T threshold, const T* z, T* y) {
  const auto t = ei::pset1<Packet<T>>(threshold);
  map([&](auto x) { return ei::pmax(ei::psub(x, t), splat<Packet<T>>(0.0)); }, n, y, z);
}
template <class T>
void entmax15_roots(std::int64_t n, T threshold, const T* z, T* u) {
  const auto t = ei::pset1<Packet<T>>(threshold), zero = splat<Packet<T>>(0.0);
  map([&](auto x) { return ei::pmax(ei::psub(ei::pmul(x, splat<Packet<T>>(0.5)), t), zero); }, n, u,
      z);
}

inline constexpr int kMostPasses = 100;

// The sum of f(z) over z > t.
template <class T, class F>
T sum_above(std::int64_t n, const T* z, T t, F f) {
  using P = Packet<T>;
  const P bound = ei::pset1<P>(t), zero = splat<P>(0.0);
  const auto value = [&](std::int64_t i, std::int64_t count) {
    const P x = count == kLanes<T> ? ei::ploadu<P>(z + i) : load_padded(z + i, count, t);
    return ei::pselect(ei::pcmp_lt(bound, x), P(f(x)), zero);
  };
  return fold_sum<T>(n, value);
}

// t with sum over z > t of (z - t) = 1. From max - 1, which is never above it, t rises to
// (sum - 1) / count over what lies above until nothing more falls out (Michelot's algorithm).
template <class T>
T sparsemax_threshold(std::int64_t n, const T* z) {
  using P = Packet<T>;
  const T top = row_max(n, z);
  const P shift = ei::pset1<P>(top);
  T t = -1, count = 0;  // of z - top
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const T above = sum_above(n, z, top + t, [](P) { return splat<P>(1.0); });
    const T sum = sum_above(n, z, top + t, [&](P x) { return ei::psub(x, shift); });
    if (above == count) break;
    count = above;
    t = (sum - 1) / count;
  }
  return top + t;
}

// t with sum over x > t of (x - t)^2 = 1, where x = z / 2. The sum is convex and falls with t, so
// Newton's steps from max - 1 rise towards it.
template <class T>
T entmax15_threshold(std::int64_t n, const T* z) {
  using P = Packet<T>;
  const T top = row_max(n, z);
  const P half = splat<P>(0.5);
  T t = -1;  // of (z - top) / 2
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const P shift = ei::pset1<P>(top / 2 + t);
    const auto root = [&](P x) { return ei::psub(ei::pmul(x, half), shift); };
    const T bound = top + 2 * t;
    const T sum = sum_above(n, z, bound, root);
    const T squares = sum_above(n, z, bound, [&](P x) { return ei::pmul(root(x), root(x)); });
    const T step = (squares - 1) / (2 * sum);
    if (!(step > std::numeric_limits<T>::epsilon() / 2)) break;
    t += step;
  }
  return top / 2 + t;
}

}  // namespace hg::cpu
