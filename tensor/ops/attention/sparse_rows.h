// Products of one row with listed rows of a table, the two halves of sparse attention: dots (one
// number a listed row) and weighted sums. The table's rows lie `packets` packets apart, padded with
// zeros; lists are 16-bit row numbers.
#pragma once

#include <utility>

#include "tensor/cpu/vector_math.h"

namespace hg::cpu {

inline constexpr int kMostPackets = 8;  // of a row that stays in registers

// Splits a and b into blocks and adds even to odd ones, inside each window of lanes: first the sums
// of a, then those of b.
template <int kBlock, int kWindow, class P, int... I>
EIGEN_ALWAYS_INLINE P add_neighbours(P a, P b, std::integer_sequence<int, I...>) {
  constexpr int kAll = sizeof...(I);
  constexpr auto lane = [](int i, int odd) {
    constexpr int half = kWindow / kBlock / 2;
    const int block = i % kWindow / kBlock;
    return (block < half ? 0 : kAll) + i / kWindow * kWindow + (2 * (block % half) + odd) * kBlock +
           i % kBlock;
  };
  return ei::padd(P(__builtin_shufflevector(a, b, lane(I, 0)...)),
                  P(__builtin_shufflevector(a, b, lane(I, 1)...)));
}

template <class T>
inline constexpr bool kSumsLanesTogether = std::is_same_v<T, float>&& kLanes<T> >= 4;

// Sums over lanes of kLanes packets at once: lane l is the sum of packet(l).
template <class T, class F>
EIGEN_ALWAYS_INLINE Packet<T> lane_sums(F packet) {
  constexpr int lanes = kLanes<T>;
  constexpr std::make_integer_sequence<int, lanes> all;
  // In lanes 4 g .. 4 g + 3: four parts of the sum of packet 4 g + e.
  const auto column = [&](int e) {
    if constexpr (lanes == 4) return packet(e);
    if constexpr (lanes == 8) return add_neighbours<4, 8>(packet(e), packet(4 + e), all);
    if constexpr (lanes == 16)
      return add_neighbours<4, 16>(add_neighbours<4, 16>(packet(e), packet(4 + e), all),
                                   add_neighbours<4, 16>(packet(8 + e), packet(12 + e), all), all);
  };
  const auto first = add_neighbours<1, 4>(column(0), column(1), all);
  const auto second = add_neighbours<1, 4>(column(2), column(3), all);
  return add_neighbours<1, 4>(first, second, all);
}

// out[n] = x . table[list[n]] for n < count (+ what was there). out has room for whole packets.
template <class T, int kPackets>
void dots_of(const T* x, const T* table, std::int64_t stride, const std::uint16_t* list,
             std::int64_t count, bool add, T* out) {
  constexpr int lanes = kLanes<T>;
  using P = Packet<T>;
  P row[kPackets];
  for (int p = 0; p < kPackets; ++p) row[p] = ei::ploadu<P>(x + p * lanes);
  const auto product = [&](std::int64_t n) __attribute__((always_inline)) {
    const T* const other = table + list[std::min(n, count - 1)] * stride;
    P sum = ei::pmul(row[0], ei::ploadu<P>(other));
#pragma GCC unroll 8
    for (int p = 1; p < kPackets; ++p)
      sum = ei::pmadd(row[p], ei::ploadu<P>(other + p * lanes), sum);
    return sum;
  };
  if constexpr (kSumsLanesTogether<T>) {
    for (std::int64_t n = 0; n < count; n += lanes) {
      const P sums =
          lane_sums<T>([&](int l) __attribute__((always_inline)) { return product(n + l); });
      ei::pstoreu(out + n, add ? ei::padd(ei::ploadu<P>(out + n), sums) : sums);
    }
  } else {  // one by one: g++ 12 gets sums of several packets of doubles wrong (-O3, AVX-512)
    for (std::int64_t n = 0; n < count; ++n)
      out[n] = (add ? out[n] : T{0}) + ei::predux(product(n));
  }
}

// y (+)= sum over n < count of weight(n) table[list[n]]
template <class T, int kPackets, class Weight>
void weighted_sum_of(const T* table, std::int64_t stride, const std::uint16_t* list,
                     std::int64_t count, Weight weight, bool add, T* y) {
  constexpr int lanes = kLanes<T>, sets = kPackets <= 2 ? 4 : kPackets <= 4 ? 2 : 1;
  using P = Packet<T>;
  P sum[sets][kPackets];
  for (int p = 0; p < kPackets; ++p) {
    sum[0][p] = add ? ei::ploadu<P>(y + p * lanes) : ei::pset1<P>(0);
    for (int s = 1; s < sets; ++s) sum[s][p] = ei::pset1<P>(0);
  }
  const auto step = [&](std::int64_t n, P * to) __attribute__((always_inline)) {
    const T* const row = table + list[n] * stride;
    const P w = ei::pset1<P>(weight(n));
#pragma GCC unroll 8
    for (int p = 0; p < kPackets; ++p) to[p] = ei::pmadd(w, ei::ploadu<P>(row + p * lanes), to[p]);
  };
  std::int64_t n = 0;
  for (; n + sets <= count; n += sets)
#pragma GCC unroll 4
    for (int s = 0; s < sets; ++s) step(n + s, sum[s]);
  for (; n < count; ++n) step(n, sum[0]);
  for (int s = 1; s < sets; ++s)
    for (int p = 0; p < kPackets; ++p) sum[0][p] = ei::padd(sum[0][p], sum[s][p]);
  for (int p = 0; p < kPackets; ++p) ei::pstoreu(y + p * lanes, sum[0][p]);
}

// f.operator()<kPackets>(first) for each block of columns, kPackets packets from element `first`.
template <class T, class F>
EIGEN_ALWAYS_INLINE void for_column_blocks(std::int64_t packets, F f) {
  for (std::int64_t p = 0; p < packets; p += kMostPackets) {
    const std::int64_t first = p * kLanes<T>;
    switch (std::min<std::int64_t>(kMostPackets, packets - p)) {
      case 1:
        f.template operator()<1>(first);
        break;
      case 2:
        f.template operator()<2>(first);
        break;
      case 3:
        f.template operator()<3>(first);
        break;
      case 4:
        f.template operator()<4>(first);
        break;
      case 5:
        f.template operator()<5>(first);
        break;
      case 6:
        f.template operator()<6>(first);
        break;
      case 7:
        f.template operator()<7>(first);
        break;
      default:
        f.template operator()<8>(first);
        break;
    }
  }
}

// A table of rows of any width.
template <class T>
struct PaddedRows {
  const T* data;
  std::int64_t packets;
  std::int64_t stride() const { return packets * kLanes<T>; }

  void dots(const T* x, const std::uint16_t* list, std::int64_t count, T* out) const {
    if (count == 0) return;
    for_column_blocks<T>(packets, [&]<int kPackets>(std::int64_t first) {
      dots_of<T, kPackets>(x + first, data + first, stride(), list, count, first > 0, out);
    });
  }
  void weighted_sum(const std::uint16_t* list, std::int64_t count, auto weight, bool add,
                    T* y) const {
    if (count == 0 && add) return;
    for_column_blocks<T>(packets, [&]<int kPackets>(std::int64_t first) {
      weighted_sum_of<T, kPackets>(data + first, stride(), list, count, weight, add, y + first);
    });
  }
};

}  // namespace hg::cpu
