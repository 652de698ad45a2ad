// Kernels that go over the scores of a block of queries, tile by tile of keys: statistics of rows,
// and the weighted sums of values.
#pragma once

#include "tensor/ops/attention/quadratic_call.cuh"

namespace hg::cuda {

// The queries of a block: those of its warp from `first + own` on.
struct QueryBlock {
  int index, first, own, lane;
  __device__ QueryBlock(std::int64_t unit, int n) {
    const int tiles = (n + kForwardRows - 1) / kForwardRows;
    index = static_cast<int>(unit / tiles);
    first = static_cast<int>(unit % tiles) * kForwardRows;
    lane = static_cast<int>(threadIdx.x) % kWarp;
    own = static_cast<int>(threadIdx.x) / kWarp * kOwn;
  }
  static constexpr int kOwn = kForwardRows / kTileWarps;
};

// Calls score(row, component, i, j, logit) of every pair that is seen, where row counts the warp's
// own ones, and end_tile(tile) after each tile. `shared` holds kForwardRows + kTile rows.
__device__ void for_scores(const QuadraticCall& c, const QueryBlock& at, float* shared, auto score,
                           auto end_tile) {
  const int pitch = padded(c.d);
  float *const queries = shared, *const keys = queries + kForwardRows * pitch;
  __syncthreads();
  load_rows(c.q.of(at.index, c.heads), c.q.row, at.first, kForwardRows, c.n, c.d, queries);
  for (int tile = 0; tile < c.m; tile += kTile) {
    for (int r = 0; r < c.components; ++r) {
      __syncthreads();  // the last tile's readers are done
      load_rows(c.k[r].of(at.index, c.heads), c.k[r].row, tile, kTile, c.m, c.d, keys);
      __syncthreads();
      float products[QueryBlock::kOwn];
      dots(queries + at.own * pitch, keys + at.lane * pitch, c.d, products);
#pragma unroll
      for (int row = 0; row < QueryBlock::kOwn; ++row) {
        const int i = at.first + at.own + row, j = tile + at.lane;
        if (c.sees(i, j)) score(row, r, i, j, c.logit(r, products[row], at.index, i, j));
      }
    }
    end_tile(tile);
  }
}

inline std::size_t score_bytes(int d) { return padded_bytes(kForwardRows + kTile, d); }

// A lane's share of a row's sum of weights, relative to its largest logit.
struct RowSum {
  float largest = -INFINITY, sum = 0;
  __device__ void take(float logit, float prior) {
    if (prior == 0) return;  // must not set the maximum
    const float top = Greater{}(largest, logit);
    sum = sum * expf(largest - top) + prior * expf(logit - top);
    largest = top;
  }
  // The logarithm of the sum over the lanes.
  __device__ float log_over_warp() const {
    const float top = over_warp(largest, Greater{});
    return top + logf(over_warp(largest == -INFINITY ? 0 : sum * expf(largest - top), Plus{}));
  }
};

// lse: the op's output. total: with priors, the logarithm of all weights; an empty row's is
// infinite, so that its weights are 0.
static __global__ void __launch_bounds__(kTileThreads)
    row_sums(QuadraticCall c, float* lse, float* total) {
  HG_DYN_SHARED(float, shared);
  const QueryBlock at(blockIdx.x, c.n);
  const bool best = c.map == QuadraticMap::best;
  RowSum sums[QueryBlock::kOwn];
  float top[QueryBlock::kOwn];
  for (float& t : top) t = -INFINITY;
  for_scores(
      c, at, shared,
      [&](int row, int r, int i, int j, float logit) {
        if (best)
          top[row] = Greater{}(top[row], logit);
        else
          sums[row].take(logit, c.prior_of(at.index, i, j, r));
      },
      [&](int) {
        if (!best) return;
#pragma unroll
        for (int row = 0; row < QueryBlock::kOwn; ++row) {
          if (top[row] != -INFINITY) sums[row].take(top[row], 1);
          top[row] = -INFINITY;
        }
      });
#pragma unroll
  for (int row = 0; row < QueryBlock::kOwn; ++row) {
    const int i = at.first + at.own + row;
    if (i >= c.n) continue;
    const float sum = sums[row].log_over_warp();
    const float largest = c.prior.data ? largest_prior(c, at.index, i) : 1;
    if (at.lane != 0) continue;
    lse[c.row(at.index, i)] = largest == 0 ? 0 : c.likelihood ? sum : sum - logf(largest);
    if (total) total[c.row(at.index, i)] = largest == 0 ? INFINITY : sum;
  }
}

inline void launch_row_sums(const QuadraticDevice& device, float* lse, float* total,
                            CudaStream& stream) {
  const QuadraticCall& c = device.call();
  launch(row_sums, head_blocks(device.heads(), c.n, kForwardRows), kTileThreads, score_bytes(c.d),
         stream, c, lse, total);
}

}  // namespace hg::cuda
