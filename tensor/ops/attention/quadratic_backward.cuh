// Backward kernels of quadratic attention. With u the derivative of a weight and g that of the loss
// by it, the gradient of a score q.k is u (g - shared) scale, `shared` one number a query.
#pragma once

#include "tensor/ops/attention/quadratic_call.cuh"

namespace hg::cuda {

struct QuadraticGrads {
  HeadRows grad;                                           // of the output: g = grad.v + grad_bias
  HeadRows dq, dv, dk[QuadraticOptions::kMostComponents];  // as far as a kernel writes them
  const float *statistic, *shared;                         // [B,H,N]: see weight_of
  const float* grad_bias;                                  // [B,H,M], or null
  const float* grad_spread;                                // [B,H,N], or null
  float* prior_sums;  // [B,H,R,M]: of the priors' gradients, summed over queries; or null
  float* mass;        // [B,H,M]: of the weights, likewise
};

// One component of a pair: its weight as values have it, u and g; e: the weight without its prior.
struct PairGradient {
  float weight = 0, u = 0, g = 0, e = 0;
};

// The logit of component r by rows in global memory.
__device__ inline float logit_of(const QuadraticCall& c, int r, int index, int i, int j) {
  const float* const q = c.q.of(index, c.heads) + i * c.q.row;
  const float* const k = c.k[r].of(index, c.heads) + j * c.k[r].row;
  float product = 0;
  for (int ch = 0; ch < c.d; ++ch) product += q[ch] * k[ch];
  return c.logit(r, product, index, i, j);
}

// The weight of a pair, all components together.
__device__ inline float whole_weight(const QuadraticCall& c, int index, int i, int j,
                                     float statistic) {
  float pair = empty_pair(c.map);
  for (int r = 0; r < c.components; ++r)
    pair =
        add_logit(c.map, pair, logit_of(c, r, index, i, j), c.prior_of(index, i, j, r), statistic);
  return weight_of(c.map, pair, statistic);
}

// Of equals the first component wins.
__device__ inline bool is_best(const QuadraticCall& c, int r, int index, int i, int j) {
  const float own = logit_of(c, r, index, i, j);
  for (int other = 0; other < c.components; ++other) {
    const float logit = logit_of(c, other, index, i, j);
    if (other < r ? logit >= own : logit > own) return false;
  }
  return true;
}

// d f / d a of f the entropy or the sum of squares
__device__ inline float spread_slope(QuadraticSpread spread, float a) {
  if (spread == QuadraticSpread::squares) return 2 * a;
  return -((a > 0 ? logf(a) : 0) + 1);
}

// Of component r of a pair that is seen, by its products q.k and grad.v.
__device__ inline PairGradient pair_gradient(const QuadraticCall& c, const QuadraticGrads& grads,
                                             int r, int index, int i, int j, float score,
                                             float value) {
  const float statistic = grads.statistic[c.row(index, i)], prior = c.prior_of(index, i, j, r);
  const float logit = c.logit(r, score, index, i, j), kept = c.kept(index, i, j);
  float pair = empty_pair(c.map);
  if (c.map != QuadraticMap::best || is_best(c, r, index, i, j))
    pair = add_logit(c.map, pair, logit, prior, statistic);
  const float weight = weight_of(c.map, pair, statistic);
  PairGradient out;
  out.weight = weight * kept;
  out.u = c.map == QuadraticMap::sparsemax ? (weight > 0 ? 1.0f : 0.0f)
                                           : weight_root(c.map, pair, statistic);
  out.e = prior == 0 ? 0 : expf(logit - statistic);
  out.g = value * kept;
  if (grads.grad_bias) out.g += grads.grad_bias[static_cast<std::int64_t>(index) * c.m + j];
  if (grads.grad_spread) {
    const float whole = c.components == 1 ? weight : whole_weight(c, index, i, j, statistic);
    out.g += grads.grad_spread[c.row(index, i)] * spread_slope(c.spread, whole);
  }
  return out;
}

// What a side of the backward pass adds up: gradients of scores times the other side's rows,
// weights times the other side's gradients (or values), or both.
enum SideSums { kSlopes = 1, kValues = 2 };
inline constexpr int kSideBlocks = 3;  // per multiprocessor: registers without spills

// What a warp adds up for its rows of one side. `lane` and a part name a channel.
template <bool kKeys, int kSums, int kChannels>
struct SideRows {
  static constexpr int kOwn = kBackwardRows / kTileWarps;
  int index, first, lane;  // of (image, head); of the warp's rows
  float by_slopes[kOwn][kChannels] = {}, by_values[kOwn][kChannels] = {};
  float slope_sum[kOwn] = {}, prior_sum[kOwn] = {}, mass[kOwn] = {};

  // The pair of the row and the lane's own of a tile.
  __device__ void meet(const QuadraticCall& c, const QuadraticGrads& grads, int r, int row,
                       int other, float score, float value, float& weight, float& slope) {
    const int i = kKeys ? other : first + row, j = kKeys ? first + row : other;
    weight = slope = 0;
    if (!c.sees(i, j)) return;
    const PairGradient pair = pair_gradient(c, grads, r, index, i, j, score, value);
    weight = pair.weight;
    mass[row] += weight;
    if (!(kSums & kSlopes)) return;
    const float centred = pair.g - grads.shared[c.row(index, i)];
    slope = pair.u * centred * c.scale[r];
    slope_sum[row] += slope;
    prior_sum[row] += pair.e * centred;
  }

  // Gradients of rows x, of keys those of component r; `pulls`: - |x|^2 / 2 is part of the scores.
  __device__ void store(const QuadraticCall& c, const HeadRows& to, int count, bool pulls,
                        const float* x) {
#pragma unroll
    for (int row = 0; row < kOwn; ++row) {
      if (first + row >= count) continue;
      const float pull = pulls ? over_warp(slope_sum[row], Plus{}) : 0;
      float* const out = to.of(index, c.heads) + (first + row) * to.row;
#pragma unroll
      for (int part = 0; part < kChannels; ++part) {
        const int ch = channel_of<kChannels>(lane, part);
        if (ch >= c.d) continue;
        const float sum = by_slopes[row][part] - pull * x[row * padded(c.d) + ch];
        out[ch] = kKeys ? sum : sum + by_values[row][part];
        by_slopes[row][part] = 0;
      }
      slope_sum[row] = 0;
    }
  }
  __device__ void store_values(const QuadraticCall& c, const HeadRows& to, int count) const {
#pragma unroll
    for (int row = 0; row < kOwn; ++row) {
      if (first + row >= count) continue;
      float* const out = to.of(index, c.heads) + (first + row) * to.row;
#pragma unroll
      for (int part = 0; part < kChannels; ++part)
        if (const int ch = channel_of<kChannels>(lane, part); ch < c.d)
          out[ch] = by_values[row][part];
    }
  }
  // One number a row, if wanted.
  __device__ void store_sums(float (&sums)[kOwn], int count, float* to) {
#pragma unroll
    for (int row = 0; row < kOwn; ++row) {
      const float sum = over_warp(sums[row], Plus{});
      if (to && lane == 0 && first + row < count) to[first + row] = sum;
      sums[row] = 0;
    }
  }
};

// A block owns rows of (x, gx) and meets tiles of (y, gy): queries own (q, grad) and meet (k, v),
// keys own (k, v) and meet (q, grad). Queries sum both into dq; keys into dk and dv.
template <bool kKeys, int kSums, int kChannels>
__global__ void __launch_bounds__(kTileThreads, kSideBlocks)
    quadratic_side(QuadraticCall c, QuadraticGrads grads) {
  using Rows = SideRows<kKeys, kSums, kChannels>;
  HG_DYN_SHARED(float, shared);
  HG_SHARED(float, weights, [kBackwardRows][kTile]);
  HG_SHARED(float, slopes, [kBackwardRows][kTile]);
  const int pitch = padded(c.d), count = kKeys ? c.m : c.n, others = kKeys ? c.n : c.m;
  float *const x = shared, *const gx = x + kBackwardRows * pitch;
  float *const y = gx + kBackwardRows * pitch, *const gy = y + kTile * pitch;
  const int tiles = (count + kBackwardRows - 1) / kBackwardRows;
  const int index = static_cast<int>(blockIdx.x) / tiles;
  const int first = static_cast<int>(blockIdx.x) % tiles * kBackwardRows;
  const int lane = threadIdx.x % kWarp, own = threadIdx.x / kWarp * Rows::kOwn;
  const HeadRows &gx_rows = kKeys ? c.v : grads.grad, &gy_rows = kKeys ? grads.grad : c.v;
  load_rows(gx_rows.of(index, c.heads), gx_rows.row, first, kBackwardRows, count, c.d, gx);
  Rows rows{index, first + own, lane};
  for (int r = 0; r < c.components; ++r) {
    const HeadRows &x_rows = kKeys ? c.k[r] : c.q, &y_rows = kKeys ? c.q : c.k[r];
    __syncthreads();
    load_rows(x_rows.of(index, c.heads), x_rows.row, first, kBackwardRows, count, c.d, x);
    for (int tile = 0; tile < others; tile += kTile) {
      __syncthreads();
      load_rows(y_rows.of(index, c.heads), y_rows.row, tile, kTile, others, c.d, y);
      load_rows(gy_rows.of(index, c.heads), gy_rows.row, tile, kTile, others, c.d, gy);
      __syncthreads();
      float scores[Rows::kOwn], values[Rows::kOwn] = {};
      dots(x + own * pitch, y + lane * pitch, c.d, scores);
      if (kSums & kSlopes) dots(gx + own * pitch, gy + lane * pitch, c.d, values);
#pragma unroll
      for (int row = 0; row < Rows::kOwn; ++row)
        rows.meet(c, grads, r, row, tile + lane, scores[row], values[row], weights[own + row][lane],
                  slopes[own + row][lane]);
      __syncwarp();
      if (kSums & kSlopes) add_tile(slopes + own, y, c.d, rows.by_slopes);
      if (kSums & kValues) add_tile(weights + own, gy, c.d, rows.by_values);
    }
    if constexpr (kKeys) {
      const std::int64_t row = (static_cast<std::int64_t>(index) * c.components + r) * c.m;
      if (kSums & kSlopes) rows.store(c, grads.dk[r], count, c.rbf, x + own * pitch);
      rows.store_sums(rows.prior_sum, count, grads.prior_sums ? grads.prior_sums + row : nullptr);
      rows.store_sums(rows.mass, count, grads.mass ? grads.mass + row : nullptr);
    }
  }
  if constexpr (!kKeys) rows.store(c, grads.dq, count, c.norm != nullptr, x + own * pitch);
  if constexpr (kKeys && (kSums & kValues) != 0) rows.store_values(c, grads.dv, count);
}

template <bool kKeys, int kSums>
void launch_side(const QuadraticDevice& device, const QuadraticGrads& grads, CudaStream& stream) {
  const QuadraticCall& c = device.call();
  dispatch_channels(c.d, [&]<int kChannels>() {
    launch(quadratic_side<kKeys, kSums, kChannels>,
           head_blocks(device.heads(), kKeys ? c.m : c.n, kBackwardRows), kTileThreads,
           padded_bytes(2 * (kBackwardRows + kTile), c.d), stream, c, grads);
  });
}

// shared = sum of u g / sum of u over a query's pairs, of one component. Softmax's weights, its u,
// add up to 1.
static __global__ void __launch_bounds__(kTileThreads)
    row_means(QuadraticCall c, QuadraticGrads grads, float* shared_of) {
  constexpr int kOwn = kBackwardRows / kTileWarps;
  HG_DYN_SHARED(float, shared);
  const int pitch = padded(c.d), tiles = (c.n + kBackwardRows - 1) / kBackwardRows;
  float *const q = shared, *const grad = q + kBackwardRows * pitch;
  float *const k = grad + kBackwardRows * pitch, *const v = k + kTile * pitch;
  const int index = static_cast<int>(blockIdx.x) / tiles;
  const int first = static_cast<int>(blockIdx.x) % tiles * kBackwardRows;
  const int lane = threadIdx.x % kWarp, own = threadIdx.x / kWarp * kOwn;
  load_rows(c.q.of(index, c.heads), c.q.row, first, kBackwardRows, c.n, c.d, q);
  load_rows(grads.grad.of(index, c.heads), grads.grad.row, first, kBackwardRows, c.n, c.d, grad);
  float sums[kOwn] = {}, sums_of_g[kOwn] = {};
  for (int tile = 0; tile < c.m; tile += kTile) {
    __syncthreads();
    load_rows(c.k[0].of(index, c.heads), c.k[0].row, tile, kTile, c.m, c.d, k);
    load_rows(c.v.of(index, c.heads), c.v.row, tile, kTile, c.m, c.d, v);
    __syncthreads();
    float scores[kOwn], values[kOwn];
    dots(q + own * pitch, k + lane * pitch, c.d, scores);
    dots(grad + own * pitch, v + lane * pitch, c.d, values);
#pragma unroll
    for (int row = 0; row < kOwn; ++row) {
      const int i = first + own + row, j = tile + lane;
      if (!c.sees(i, j)) continue;
      const PairGradient pair = pair_gradient(c, grads, 0, index, i, j, scores[row], values[row]);
      sums[row] += pair.u;
      sums_of_g[row] += pair.u * pair.g;
    }
  }
#pragma unroll
  for (int row = 0; row < kOwn; ++row) {
    const int i = first + own + row;
    const float sum = over_warp(sums[row], Plus{}), product = over_warp(sums_of_g[row], Plus{});
    if (i < c.n && lane == 0)
      shared_of[c.row(index, i)] = c.map == QuadraticMap::softmax ? product : product / sum;
  }
}

inline void launch_row_means(const QuadraticDevice& device, const QuadraticGrads& grads,
                             float* shared, CudaStream& stream) {
  const QuadraticCall& c = device.call();
  launch(row_means, head_blocks(device.heads(), c.n, kBackwardRows), kTileThreads,
         padded_bytes(2 * (kBackwardRows + kTile), c.d), stream, c, grads, shared);
}

}  // namespace hg::cuda
