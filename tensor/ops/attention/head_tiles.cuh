// Pairs of tokens by tiles in shared memory, head by head: a block takes a few rows of one (image,
// head), its warps their own ones of them, against tiles of 32 others, one per lane.
#pragma once

#include "tensor/cuda/reduce.h"
#include "tensor/ops/attention/token_heads.h"

namespace hg::cuda {

inline constexpr int kTileThreads = 128, kTileWarps = kTileThreads / kWarp;
inline constexpr int kTile = kWarp;  // rows of the other side
inline constexpr int kForwardRows = 16, kBackwardRows = 8;
inline constexpr int kMostChannels = 128;
inline constexpr int kBlocksPerUnit = 4;  // shared memory holds no more; else ptxas spills for 7

using HeadRows = TokenHeads<float>;  // where the rows of q, k, v or an output lie

// Rows in shared memory lie an odd number of float4 apart: they are read four channels at a time,
// and lanes that read those of their own row meet different banks.
__host__ __device__ constexpr int padded(int d) { return ((d + 3) / 4 | 1) * 4; }
inline std::size_t padded_bytes(int rows, int d) {
  return static_cast<std::size_t>(rows) * padded(d) * sizeof(float);
}

__device__ inline float4& quad_at(float* p) { return *reinterpret_cast<float4*>(p); }
__device__ inline const float4& quad_at(const float* p) {
  return *reinterpret_cast<const float4*>(p);
}
__device__ inline bool holds_quads(const float* p, std::int64_t stride, int d) {
  return d % 4 == 0 && stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// rows [first, first + count) of one head into shared memory, zeros beyond its end; four channels
// at a time, where they lie so.
__device__ inline void load_rows(const float* from, std::int64_t stride, int first, int count,
                                 int end, int d, float* to) {
  const int width = holds_quads(from, stride, d) ? 4 : 1, pieces = d / width;
  int row = static_cast<int>(threadIdx.x) / pieces, piece = static_cast<int>(threadIdx.x) % pieces;
  const int rows = kTileThreads / pieces, rest = kTileThreads % pieces;
  while (row < count) {  // without a division an element
    const float* const at = from + (first + row) * stride + piece * width;
    float* const there = to + row * padded(d) + piece * width;
    const bool inside = first + row < end;
    if (width == 4)
      quad_at(there) = inside ? quad_at(at) : float4{};
    else
      *there = inside ? *at : 0;
    row += rows, piece += rest;
    if (piece >= pieces) piece -= pieces, ++row;
  }
}

// products[r] = rows[r] . other: the lane's own row of a tile is read once for all rows of the
// warp.
template <int kOwn>
__device__ void dots(const float* rows, const float* other, int d, float (&products)[kOwn]) {
  const int pitch = padded(d);
  for (float& p : products) p = 0;
  int c = 0;
#pragma unroll 2  // more would take more registers than there are
  for (; c + 4 <= d; c += 4) {
    const float4 b = quad_at(other + c);
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      const float4 a = quad_at(rows + r * pitch + c);
      products[r] += a.x * b.x;
      products[r] += a.y * b.y;
      products[r] += a.z * b.z;
      products[r] += a.w * b.w;
    }
  }
  for (; c < d; ++c)
#pragma unroll
    for (int r = 0; r < kOwn; ++r) products[r] += rows[r * pitch + c] * other[c];
}

// The channels that a lane adds up lie side by side.
template <int kChannels>
__device__ int channel_of(int lane, int part) {
  return lane * kChannels + part;
}

// The lane's channels of a row, zeros beyond d.
template <int kChannels>
__device__ void channels_at(const float* row, int d, float (&values)[kChannels]) {
  const int first = channel_of<kChannels>(static_cast<int>(threadIdx.x) % kWarp, 0);
  if (first + kChannels <= d) {
    if constexpr (kChannels == 4) {
      const float4 v = quad_at(row + first);
      values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
    } else if constexpr (kChannels == 2) {
      const float2 v = *reinterpret_cast<const float2*>(row + first);
      values[0] = v.x, values[1] = v.y;
    } else {
      values[0] = row[first];
    }
    return;
  }
#pragma unroll
  for (int part = 0; part < kChannels; ++part)
    values[part] = first + part < d ? row[first + part] : 0;
}

// sums[r][part] += sum over a tile of weights[r][j] rows[j][c], where lane and part name channel c.
template <int kOwn, int kChannels>
__device__ void add_tile(float (*weights)[kTile], const float* rows, int d,
                         float (&sums)[kOwn][kChannels]) {
  const int pitch = padded(d);
#pragma unroll 1
  for (int j = 0; j < kTile; j += 4) {
    float values[4][kChannels];
#pragma unroll
    for (int i = 0; i < 4; ++i) channels_at(rows + (j + i) * pitch, d, values[i]);
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      const float4 weight = quad_at(&weights[r][j]);
#pragma unroll
      for (int part = 0; part < kChannels; ++part) {
        sums[r][part] += weight.x * values[0][part];
        sums[r][part] += weight.y * values[1][part];
        sums[r][part] += weight.z * values[2][part];
        sums[r][part] += weight.w * values[3][part];
      }
    }
  }
}

// Throws unless the kernels can take so many queries and keys of so many channels.
inline void check_sizes(std::string_view who, std::int64_t n, std::int64_t m, std::int64_t d) {
  require(d <= kMostChannels, who, "{} channels a head, at most {} on CUDA", d, kMostChannels);
  require(n < (1 << 30) && m < (1 << 30), who, "{} tokens are too many", std::max(n, m));
}

// Blocks for `rows` rows of each head, so many per block.
inline unsigned head_blocks(std::int64_t heads, int rows, int per_block) {
  return blocks_for(heads * ((rows + per_block - 1) / per_block), 1);
}

// Calls f.operator()<channels per lane>().
void dispatch_channels(int d, auto&& f) {
  if (d <= 32) return f.template operator()<1>();
  if (d <= 64) return f.template operator()<2>();
  f.template operator()<4>();
}

}  // namespace hg::cuda
