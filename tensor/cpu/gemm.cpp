#include "tensor/cpu/gemm.h"

#include <algorithm>
#include <new>

#include "tensor/cpu/gemm_pack.h"
#include "tensor/cpu/parallel.h"

namespace hg::cpu {
namespace {

using namespace gemm_detail;
using std::int64_t;

constexpr int64_t kRowBlock = 96;  // rows of A and C kept in L2 across blocks of k
template <class T>
constexpr int64_t kInnerElements = (128 << 10) / sizeof(T);  // of B kept in L2 for a row block
template <class T>
constexpr int64_t kPackElements = (1 << 20) / sizeof(T);  // of B packed before it is used
template <class T>
constexpr int64_t kLine = 64 / sizeof(T);  // elements of a cache line

template <class T>
struct Product {
  int64_t m, n, k;
  Matrix<T> a;
  T* c;
  int64_t ldc;
  Epilogue<T> epilogue;

  Product block(int64_t i, int64_t j, int64_t rows, int64_t cols) const {
    Product p = *this;
    p.m = rows, p.n = cols;
    p.a = a.block(i, 0);
    p.c += i * ldc + j;
    if (epilogue.bias) p.epilogue.bias += j;
    if (epilogue.pre) p.epilogue.pre += i * ldc + j;
    return p;
  }
};

template <class T>
struct Store {  // how the sums over one block of k go into C
  T alpha;
  bool accumulate;
  const T* bias;
};

// c[rows, packets] from a[rows, k] and the packed b[k, packets]. By reference: structs passed by
// value are written in parts and read whole, which stalls.
template <class T, int rows, int packets>
void tile(int64_t k, const Matrix<T>& a, const T* b, T* c, int64_t ldc, const Store<T>& store) {
  using P = Packet<T>;
  constexpr int lanes = kLanes<T>;
  const P zero = ei::pset1<P>(T{0});
  P sum[rows][packets];
  for (int i = 0; i < rows; ++i) {
    __builtin_prefetch(c + i * ldc, 1);
    for (int j = 0; j < packets; ++j) sum[i][j] = zero;
  }
  const T* from[(rows + 2) / 3];  // one pointer reaches three rows by addressing modes alone
  for (int g = 0; 3 * g < rows; ++g) from[g] = a.data + 3 * g * a.row_stride;
  for (; k > 0; --k, b += packets * lanes) {
    P row[packets];
    for (int j = 0; j < packets; ++j) row[j] = ei::ploadu<P>(b + j * lanes);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      const P x = ei::pset1<P>(from[i / 3][i % 3 * a.row_stride]);
      for (int j = 0; j < packets; ++j) sum[i][j] = ei::pmadd(x, row[j], sum[i][j]);
    }
    for (int g = 0; 3 * g < rows; ++g) from[g] += a.col_stride;
  }
  const P alpha = ei::pset1<P>(store.alpha);
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < packets; ++j) {
      T* out = c + i * ldc + j * lanes;
      // A bare product could be contracted with the bias in one tile and not in another.
      P value = ei::pmadd(sum[i][j], alpha, store.accumulate ? ei::ploadu<P>(out) : zero);
      if (store.bias) value = ei::padd(value, ei::ploadu<P>(store.bias + j * lanes));
      ei::pstoreu(out, value);
    }
  }
}

template <class T>
using Tile = void (*)(int64_t, const Matrix<T>&, const T*, T*, int64_t, const Store<T>&);

// Of up to kTileRows rows, or exactly tile_rows(packets).
template <class T, int packets = kTilePackets>
Tile<T> select_tile(int64_t rows, int64_t wanted_packets) {
  if constexpr (packets > 1) {
    if (wanted_packets < packets) return select_tile<T, packets - 1>(rows, wanted_packets);
  }
  static constexpr Tile<T> by_rows[] = {tile<T, 1, packets>, tile<T, 2, packets>,
                                        tile<T, 3, packets>, tile<T, 4, packets>,
                                        tile<T, 5, packets>, tile<T, 6, packets>};
  return rows > kTileRows ? tile<T, tile_rows(packets), packets> : by_rows[rows - 1];
}

// Columns that do not fill their last packet are computed in a full tile aside.
template <class T>
void narrow_tile(int64_t rows, int64_t cols, int64_t k, const Matrix<T>& a, const T* b, T* c,
                 int64_t ldc, Store<T> store) {
  constexpr int wide = kPanel<T>;
  const Tile<T> tile = select_tile<T>(rows, ceil_div(cols, kLanes<T>));
  if (cols % kLanes<T> == 0) return tile(k, a, b, c, ldc, store);
  alignas(64) T aside[kMostTileRows * wide], bias[wide];
  if (store.accumulate) {
    for (int64_t i = 0; i < rows; ++i)
      std::fill(std::copy_n(c + i * ldc, cols, aside + i * wide), aside + (i + 1) * wide, T{0});
  }
  if (store.bias) {
    std::fill(std::copy_n(store.bias, cols, bias), bias + wide, T{0});
    store.bias = bias;
  }
  tile(k, a, b, aside, wide, store);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(aside + i * wide, cols, c + i * ldc);
}

// Rows of A in the order of tiles: in place, or copied as strips of kTileRows.
template <class T>
struct Strips {
  Matrix<T> a;
  int64_t step;  // from one copied strip to the next; 0: in place

  Matrix<T> at(int64_t row) const {
    return {a.data + (step > 0 ? row / kTileRows * step : row * a.row_stride), a.row_stride,
            a.col_stride};
  }
};

// One block of k: A against the packed panels of B that are full.
template <class T>
void multiply_panels(const Product<T>& p, int64_t k, const Strips<T>& strips, const T* packed,
                     Store<T> store) {
  const T* bias = store.bias;
  for (int64_t i = 0; i < p.m; i += kTileRows) {
    const Tile<T> tile = select_tile<T>(std::min<int64_t>(kTileRows, p.m - i), kTilePackets);
    const Matrix<T> strip = strips.at(i);
    for (int64_t j = 0; j + kPanel<T> <= p.n; j += kPanel<T>) {
      if (bias) store.bias = bias + j;
      tile(k, strip, packed + j * k, p.c + i * p.ldc + j, p.ldc, store);
    }
  }
}

// The same against the last panel, which is narrow.
template <class T>
void multiply_narrow_panel(const Product<T>& p, int64_t k, const Strips<T>& strips, const T* packed,
                           Store<T> store) {
  const int64_t cols = p.n % kPanel<T>, j = p.n - cols;
  if (cols == 0) return;
  if (store.bias) store.bias += j;
  const int packets = static_cast<int>(ceil_div(cols, kLanes<T>));
  const int64_t tall = strips.step > 0 ? kTileRows : tile_rows(packets);
  for (int64_t i = 0; i < p.m;) {
    const int64_t rows = p.m - i >= tall ? tall : std::min<int64_t>(kTileRows, p.m - i);
    narrow_tile(rows, cols, k, strips.at(i), packed + j * k, p.c + i * p.ldc + j, p.ldc, store);
    i += rows;
  }
}

// A is read in place unless the steps along k are long and paid for many times.
template <class T>
bool worth_copying_a(const Product<T>& p) {
  const bool beyond_cache = p.k * p.a.col_stride > 2 * kInnerElements<T>;
  return p.a.col_stride != 1 && p.n > (beyond_cache ? 2 : 4) * kPanel<T>;
}

// At most kRowBlock rows of C and the part [begin, end) of k, which `packed` holds.
template <class T>
void multiply_rows(const Product<T>& p, int64_t begin, int64_t end, const T* packed) {
  alignas(64) T a_copy[kRowBlock / kTileRows * (kTileRows * kMaxDepth<T> + kLine<T>)];
  const bool copy_a = worth_copying_a(p);
  int64_t at = begin;
  do {  // once even for k = 0
    const int64_t count = std::min(depth_of_block<T>(p.k), end - at);
    Strips<T> strips{p.a.block(0, at), 0};
    if (copy_a) {
      const int64_t step = kTileRows * count + kLine<T>;  // else all fall in the same cache sets
      pack_a(p.m, count, strips.a, a_copy, step);
      strips = {{a_copy, 1, kTileRows}, step};
    }
    const int64_t inner = round_up(kInnerElements<T> / std::max<int64_t>(1, count), kPanel<T>);
    for (int64_t j = 0; j < p.n; j += inner) {
      const Product<T> part = p.block(0, j, p.m, std::min(inner, p.n - j));
      const Store<T> store{p.epilogue.alpha, p.epilogue.accumulate || at > 0,
                           at + count == p.k ? part.epilogue.bias : nullptr};
      multiply_panels(part, count, strips, packed + j * count, store);
      multiply_narrow_panel(part, count, strips, packed + j * count, store);
    }
    packed += round_up(p.n, kLanes<T>) * count;
    at += count;
  } while (at < end);
}

template <class T>
void apply_gelu(const Product<T>& p, const T* pre) {
  for (int64_t i = 0; i < p.m; ++i) {
    map([](auto v) { return vgelu(v); }, p.n, p.c + i * p.ldc, pre + i * p.ldc);
  }
}

// With a GELU the sums are formed where its argument is kept.
template <class T>
void multiply(const Product<T>& p, int64_t begin, int64_t end, const T* packed) {
  for (int64_t i = 0; i < p.m; i += kRowBlock) {
    const Product<T> rows = p.block(i, 0, std::min(kRowBlock, p.m - i), p.n);
    Product<T> sums = rows;
    if (p.epilogue.pre) sums.c = rows.epilogue.pre;
    multiply_rows(sums, begin, end, packed);
    if (end == p.k && p.epilogue.gelu) apply_gelu<T>(rows, sums.c);
  }
}

template <class T>
struct PackLimits {  // columns and depth of B that gemm_serial packs at once
  int64_t cols, depth;

  PackLimits(int64_t n, int64_t k) {
    const int64_t block = depth_of_block<T>(k);
    cols = std::min(round_up(n, kLanes<T>), round_up(kPackElements<T> / block, kPanel<T>));
    depth = block * std::max<int64_t>(1, kPackElements<T> / (block * std::max<int64_t>(1, cols)));
  }
};

// A single panel of whole packets, row after row, is as packing would leave it.
template <class T>
bool is_packed(int64_t n, const Matrix<T>& b) {
  return b.col_stride == 1 && b.row_stride == n && n <= kPanel<T> && n % kLanes<T> == 0;
}

// Grows only, so that nothing is allocated in the steady state.
template <class T>
T* thread_scratch(int64_t elements) {
  struct Buffer {
    T* data = nullptr;
    int64_t size = 0;
    void free() { ::operator delete (data, std::align_val_t{64}), data = nullptr, size = 0; }
    ~Buffer() { free(); }
  };
  thread_local Buffer buffer;
  if (elements > buffer.size) {
    buffer.free();
    buffer.data = static_cast<T*>(::operator new (elements * sizeof(T), std::align_val_t{64}));
    buffer.size = elements;
  }
  return buffer.data;
}

struct Grid {
  int64_t rows, cols;  // parts of C along each side
};

// The split into at most `workers` parts whose largest one costs least, counting its tiles, the
// panels it packs and the strips it reads.
Grid choose_grid(int64_t strips, int64_t panels, int64_t workers) {
  Grid best{1, 1};
  int64_t least = -1;
  for (int64_t cols = 1; cols <= std::min(workers, panels); ++cols) {
    const int64_t rows = std::min(workers / cols, strips);
    const int64_t tall = ceil_div(strips, rows), wide = ceil_div(panels, cols);
    const int64_t cost = 4 * tall * wide + 2 * wide + tall;
    if (least < 0 || cost < least) least = cost, best = {rows, cols};
  }
  return best;
}

}  // namespace

template <class T>
std::int64_t packed_size(std::int64_t n, std::int64_t k) {
  return round_up(n, kLanes<T>) * k;
}

template <class T>
void pack_b(std::int64_t n, std::int64_t k, Matrix<T> b, T* packed) {
  pack_part(n, k, 0, k, b, packed);
}

template <class T>
void gemm_packed(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, const T* packed, T* c,
                 std::int64_t ldc, const Epilogue<T>& epilogue) {
  multiply(Product<T>{m, n, k, a, c, ldc, epilogue}, 0, k, packed);
}

template <class T>
std::int64_t gemm_scratch(std::int64_t n, std::int64_t k) {
  const PackLimits<T> limits(n, k);
  return limits.cols * std::min(limits.depth, k);
}

template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, Matrix<T> b, T* c,
                 std::int64_t ldc, T* scratch, const Epilogue<T>& epilogue) {
  const Product<T> whole{m, n, k, a, c, ldc, epilogue};
  PackLimits<T> limits(n, k);
  // Each row block walks A over the whole packed depth, which must be short if rows lie apart.
  if (a.col_stride != 1) limits.depth = depth_of_block<T>(k);
  for (int64_t j = 0; j < n; j += limits.cols) {
    const Product<T> part = whole.block(0, j, m, std::min(limits.cols, n - j));
    int64_t begin = 0;
    do {  // once even for k = 0
      const int64_t end = std::min(k, begin + limits.depth);
      const T* packed = b.at(begin, 0);
      if (!is_packed(n, b)) {
        pack_part(part.n, k, begin, end, b.block(0, j), scratch);
        packed = scratch;
      }
      multiply(part, begin, end, packed);
      begin = end;
    } while (begin < k);
  }
}

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<T> a, Matrix<T> b, T* c,
          std::int64_t ldc, const Epilogue<T>& epilogue) {
  if (m == 0 || n == 0) return;
  constexpr int64_t kWorthAThread = 1 << 17;  // multiply-adds: a few microseconds
  const int64_t workers = std::min<int64_t>(threads(), 1 + m * n * k / kWorthAThread);
  const int64_t strips = ceil_div(m, kTileRows), panels = ceil_div(n, kPanel<T>);
  const Grid grid = choose_grid(strips, panels, workers);
  const Product<T> whole{m, n, k, a, c, ldc, epilogue};
  parallel_for(grid.rows * grid.cols, 1, [&](int64_t part, int64_t) {
    const int64_t row = part / grid.cols, col = part % grid.cols;
    const int64_t i = row * strips / grid.rows * kTileRows;
    const int64_t j = col * panels / grid.cols * kPanel<T>;
    const int64_t i_end = std::min(m, (row + 1) * strips / grid.rows * kTileRows);
    const int64_t j_end = std::min(n, (col + 1) * panels / grid.cols * kPanel<T>);
    const Product<T> p = whole.block(i, j, i_end - i, j_end - j);
    gemm_serial(p.m, p.n, k, p.a, b.block(0, j), p.c, ldc,
                thread_scratch<T>(gemm_scratch<T>(p.n, k)), p.epilogue);
  });
}

#define HG_GEMM(T)                                                                              \
  template void gemm(std::int64_t, std::int64_t, std::int64_t, Matrix<T>, Matrix<T>, T*,        \
                     std::int64_t, const Epilogue<T>&);                                         \
  template void gemm_serial(std::int64_t, std::int64_t, std::int64_t, Matrix<T>, Matrix<T>, T*, \
                            std::int64_t, T*, const Epilogue<T>&);                              \
  template void gemm_packed(std::int64_t, std::int64_t, std::int64_t, Matrix<T>, const T*, T*,  \
                            std::int64_t, const Epilogue<T>&);                                  \
  template void pack_b(std::int64_t, std::int64_t, Matrix<T>, T*);                              \
  template std::int64_t gemm_scratch<T>(std::int64_t, std::int64_t);                            \
  template std::int64_t packed_size<T>(std::int64_t, std::int64_t);

HG_GEMM(float)
HG_GEMM(double)

}  // namespace hg::cpu
