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

// Rows in shared memory lie an odd number of floats apart, so that lanes reading a channel each of
// their own row meet different banks.
__host__ __device__ constexpr int padded(int d) { return d | 1; }
inline std::size_t padded_bytes(int rows, int d) {
  return static_cast<std::size_t>(rows) * padded(d) * sizeof(float);
}

// rows [first, first + count) of one head into shared memory, zeros beyond its end.
__device__ inline void load_rows(const float* from, std::int64_t stride, int first, int count,
                                 int end, int d, float* to) {
  int row = static_cast<int>(threadIdx.x) / d, c = static_cast<int>(threadIdx.x) % d;
  const int rows = kTileThreads / d, rest = kTileThreads % d;
  while (row < count) {  // without a division an element
    to[row * padded(d) + c] = first + row < end ? from[(first + row) * stride + c] : 0;
    row += rows, c += rest;
    if (c >= d) c -= d, ++row;
  }
}

// products[r] = rows[r] . other: the lane's own row of a tile is read once for all rows of the
// warp.
template <int kOwn>
__device__ void dots(const float* rows, const float* other, int d, float (&products)[kOwn]) {
  for (float& p : products) p = 0;
  for (int c = 0; c < d; ++c) {
    const float value = other[c];
#pragma unroll
    for (int r = 0; r < kOwn; ++r) products[r] += rows[r * padded(d) + c] * value;
  }
}

// sums[r][part] += sum over a tile of weights[r][j] rows[j][c], where lane and part name channel c.
template <int kOwn, int kChannels>
__device__ void add_tile(float (*weights)[kTile], const float* rows, int d,
                         float (&sums)[kOwn][kChannels]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int j = 0; j < kTile; ++j) {
    float weight[kOwn];
#pragma unroll
    for (int r = 0; r < kOwn; ++r) weight[r] = weights[r][j];
#pragma unroll
    for (int part = 0; part < kChannels; ++part) {
      const int c = part * kWarp + lane;
      const float value = c < d ? rows[j * padded(d) + c] : 0;
#pragma unroll
      for (int r = 0; r < kOwn; ++r) sums[r][part] += weight[r] * value;
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
