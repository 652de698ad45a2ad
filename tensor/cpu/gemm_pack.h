// How gemm.cpp cuts and orders its operands: tile and block sizes, and the copies of A and B in the
// order in which tiles read them. Private to gemm.cpp.
#pragma once

#include <algorithm>
#include <cstring>

#include "tensor/cpu/gemm.h"
#include "tensor/cpu/vector_math.h"

#pragma GCC diagnostic ignored "-Wignored-attributes"  // packets as template arguments

namespace hg::cpu::gemm_detail {

using std::int64_t;

// A register tile of 6 rows by 2 packets (16 registers) or 4 packets (32): the sums, one row of B
// and one broadcast element of A fill the register file. Narrower tiles are taller.
inline constexpr int kTileRows = 6;
inline constexpr int kTilePackets = EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS >= 32 ? 4 : 2;
inline constexpr int tile_rows(int packets) {
  return packets == kTilePackets ? kTileRows : packets == 3 ? 8 : 12;
}
inline constexpr int kMostTileRows = 12;
template <class T>
inline constexpr int kPanel = kTilePackets* kLanes<T>;  // columns of a packed panel of B

template <class T>
inline constexpr int64_t kMaxDepth = 1024 / sizeof(T);  // of k at once: a panel of B stays in L1

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// k is cut into blocks of equal size (up to rounding), which leaves no short one.
template <class T>
int64_t depth_of_block(int64_t k) {
  return k == 0 ? 1 : ceil_div(k, ceil_div(k, kMaxDepth<T>));
}

// Copies a[m, k] as strips of [k, kTileRows], the order in which tiles read it.
template <class T>
void pack_a(int64_t m, int64_t k, Matrix<T> a, T* out, int64_t strip_step) {
  constexpr int64_t together = 16;  // steps of k whose lines stay in L1 until all strips are done
  for (int64_t begin = 0; begin < k; begin += together) {
    const int64_t end = std::min(k, begin + together);
    T* strip = out;
    for (int64_t i = 0; i < m; i += kTileRows, strip += strip_step) {
      const int64_t rows = std::min<int64_t>(kTileRows, m - i);
      for (int64_t p = begin; p < end; ++p) {
        const T* from = a.at(i, p);
        T* to = strip + p * kTileRows;
        __builtin_prefetch(from + together * a.col_stride);  // no hardware foresees such steps
        if (a.row_stride == 1 && rows == kTileRows) {
          std::memcpy(to, from, kTileRows * sizeof(T));
        } else {
          for (int64_t r = 0; r < rows; ++r) to[r] = from[r * a.row_stride];
        }
      }
    }
  }
}

// A panel of any width and strides, padded with zeros to whole packets: [k][padded].
template <class T>
void pack_any(int64_t width, int64_t k, Matrix<T> b, T* out) {
  const int64_t padded = round_up(width, kLanes<T>);
  for (int64_t p = 0; p < k; ++p, out += padded) {
    const T* row = b.at(p, 0);
    for (int64_t j = 0; j < padded; ++j) out[j] = j < width ? row[j * b.col_stride] : T{0};
  }
}

// Full panels of a row-major B, read in the order of memory.
template <class T>
void pack_row_major(int64_t panels, int64_t k, Matrix<T> b, T* out) {
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < panels; ++j) {
      std::memcpy(out + (j * k + p) * kPanel<T>, b.at(p, j * kPanel<T>), kPanel<T> * sizeof(T));
    }
  }
}

// The last, narrow panel of a row-major B.
template <class T>
void pack_narrow_row_major(int64_t width, int64_t k, Matrix<T> b, T* out) {
  constexpr int lanes = kLanes<T>;
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < width; j += lanes, out += lanes)
      ei::pstoreu(out, load_padded(b.at(p, j), std::min<int64_t>(lanes, width - j)));
  }
}

// A panel of a column-major B, by transposing squares of packets.
template <class T>
void pack_column_major(int64_t width, int64_t k, Matrix<T> b, T* out) {
  constexpr int lanes = kLanes<T>;
  const int64_t padded = round_up(width, lanes);
  for (int64_t p = 0; p < k; p += lanes) {
    const int64_t count = std::min<int64_t>(lanes, k - p);
    for (int64_t j = 0; j < width; j += lanes) {
      ei::PacketBlock<Packet<T>, lanes> square;
      for (int i = 0; i < lanes; ++i)
        square.packet[i] = j + i < width ? load_padded(b.at(p, j + i), count) : splat<Packet<T>>(0);
      ei::ptranspose(square);
      for (int64_t i = 0; i < count; ++i) ei::pstoreu(out + (p + i) * padded + j, square.packet[i]);
    }
  }
}

template <class T>
void pack_panel(int64_t width, int64_t k, Matrix<T> b, T* out) {
  if (b.row_stride == 1)
    pack_column_major(width, k, b, out);
  else if (b.col_stride == 1)
    pack_narrow_row_major(width, k, b, out);
  else
    pack_any(width, k, b, out);
}

// The part [begin, end) of k: block by block, panel by panel, [k][columns].
template <class T>
void pack_part(int64_t n, int64_t k, int64_t begin, int64_t end, Matrix<T> b, T* packed) {
  constexpr int wide = kPanel<T>;
  const int64_t depth = depth_of_block<T>(k), panels = n / wide, rest = n % wide;
  for (int64_t at = begin; at < end; at += depth) {
    const int64_t count = std::min(depth, end - at);
    const Matrix<T> block = b.block(at, 0);
    if (b.col_stride == 1) pack_row_major(panels, count, block, packed);
    for (int64_t j = 0; j < panels; ++j, packed += wide * count)
      if (b.col_stride != 1) pack_panel(wide, count, block.block(0, j * wide), packed);
    pack_panel(rest, count, block.block(0, panels * wide), packed);
    packed += round_up(rest, kLanes<T>) * count;
  }
}

}  // namespace hg::cpu::gemm_detail
