// Softmax attention by tiles in shared memory; the scores never reach global memory. A block takes
// a few rows of one (image, head) against tiles of 32 others, one per lane. Gradients are summed by
// the block that owns their row, in order: the same bits every time, without atomics.
#include <algorithm>
#include <cmath>

#include "tensor/ops/attention.h"
#include "tensor/ops/attention/head_tiles.cuh"

namespace hg::ops {
namespace {

using cuda::HeadRows, cuda::kTile, cuda::kTileThreads, cuda::kTileWarps, cuda::load_rows;
using cuda::padded;

struct Sizes {
  int heads, n, m, d;  // n queries and m keys of d channels
  float scale;
};

// The running softmax of one row: largest score, sum of exponentials relative to it.
struct RowState {
  float largest = -INFINITY, sum = 0;
};

// Takes in a tile's scores, one per lane; returns the lane's weight, and in `keep` the factor for
// what was added up before.
__device__ float take_scores(RowState& row, float score, float& keep) {
  const float largest = fmaxf(row.largest, cuda::over_warp(score, cuda::Greater{}));
  const float weight = expf(score - largest);
  keep = expf(row.largest - largest);
  row.sum = row.sum * keep + cuda::over_warp(weight, cuda::Plus{});
  row.largest = largest;
  return weight;
}

// Rows of a block. The more there are, the fewer values each product reads from shared memory; with
// more than 64 channels a row, it holds no more of them.
template <int kChannels>
constexpr int kForwardRows = kChannels <= 2 ? 32 : 16;
template <int kChannels>
constexpr int kBackwardRows = kChannels <= 2 ? 16 : 8;

// kChannels: of a row, per lane. Each warp has its own rows, the lanes share its keys and channels.
template <int kChannels>
__global__ void __launch_bounds__(kTileThreads, cuda::kBlocksPerUnit)
    forward(HeadRows q, HeadRows k, HeadRows v, HeadRows o, float* lse, Sizes s) {
  constexpr int kRows = kForwardRows<kChannels>, kOwn = kRows / kTileWarps;
  HG_DYN_SHARED(float, shared);
  HG_SHARED(float, weights, [kRows][kTile]);
  float *const queries = shared, *const keys = queries + kRows * padded(s.d);
  float* const values = keys + kTile * padded(s.d);
  const int tiles = (s.n + kRows - 1) / kRows;
  const int index = static_cast<int>(blockIdx.x) / tiles;  // of (image, head)
  const int first = static_cast<int>(blockIdx.x) % tiles * kRows;
  const int lane = threadIdx.x % cuda::kWarp, own = threadIdx.x / cuda::kWarp * kOwn;
  load_rows(q.of(index, s.heads), q.row, first, kRows, s.n, s.d, queries);
  RowState rows[kOwn];
  float sums[kOwn][kChannels] = {};
  for (int tile = 0; tile < s.m; tile += kTile) {
    __syncthreads();  // the last tile's readers are done
    load_rows(k.of(index, s.heads), k.row, tile, kTile, s.m, s.d, keys);
    load_rows(v.of(index, s.heads), v.row, tile, kTile, s.m, s.d, values);
    __syncthreads();
    float scores[kOwn], keep[kOwn];
    cuda::dots(queries + own * padded(s.d), keys + lane * padded(s.d), s.d, scores);
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      const float score = tile + lane < s.m ? scores[r] * s.scale : -INFINITY;
      weights[own + r][lane] = take_scores(rows[r], score, keep[r]);
    }
    __syncwarp();
    for (int r = 0; r < kOwn; ++r)
      for (int part = 0; part < kChannels; ++part) sums[r][part] *= keep[r];
    cuda::add_tile(weights + own, values, s.d, sums);
  }
  for (int r = 0; r < kOwn; ++r) {
    const int row = first + own + r;
    if (row >= s.n) continue;
    float* const to = o.of(index, s.heads) + row * o.row;
#pragma unroll
    for (int part = 0; part < kChannels; ++part) {
      const int c = cuda::channel_of<kChannels>(lane, part);
      if (c < s.d) to[c] = sums[r][part] / rows[r].sum;
    }
    if (lane == 0)
      lse[static_cast<std::int64_t>(index) * s.n + row] = rows[r].largest + logf(rows[r].sum);
  }
}

// delta = sum over channels of do o, [B,H,N]; a warp each.
__global__ void __launch_bounds__(kTileThreads)
    row_deltas(HeadRows grad, HeadRows o, float* delta, std::int64_t rows, Sizes s) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kTileWarps + threadIdx.x / cuda::kWarp;
  if (at >= rows) return;
  const int index = static_cast<int>(at / s.n);
  const float* const g = grad.of(index, s.heads) + at % s.n * grad.row;
  const float* const y = o.of(index, s.heads) + at % s.n * o.row;
  const float sum = cuda::warp_dot(g, y, s.d);
  if (threadIdx.x % cuda::kWarp == 0) delta[at] = sum;
}

// One side of the backward pass: a block owns rows of (x, gx) and meets tiles of (y, gy). The score
// is x y, p's gradient gx gy; with ds = p (gx gy - delta) scale the sums are dx = ds y and dgx = p
// gy. Queries own (q, do) and keep dq; keys own (k, v) and keep dk and dv.
struct Side {
  HeadRows x, gx, y, gy, dx, dgx;
  int own, other;  // rows
};

template <bool kKeys, int kChannels>
__global__ void __launch_bounds__(kTileThreads, cuda::kBlocksPerUnit)
    backward(Side side, const float* lse, const float* delta, Sizes s) {
  constexpr int kRows = kBackwardRows<kChannels>, kOwn = kRows / kTileWarps;
  HG_DYN_SHARED(float, shared);
  HG_SHARED(float, p, [kRows][kTile]);
  HG_SHARED(float, ds, [kRows][kTile]);
  const int pitch = padded(s.d);
  float *const x = shared, *const gx = x + kRows * pitch;
  float *const y = gx + kRows * pitch, *const gy = y + kTile * pitch;
  const int tiles = (side.own + kRows - 1) / kRows;
  const int index = static_cast<int>(blockIdx.x) / tiles;
  const int first = static_cast<int>(blockIdx.x) % tiles * kRows;
  const int lane = threadIdx.x % cuda::kWarp, own = threadIdx.x / cuda::kWarp * kOwn;
  const std::int64_t queries = static_cast<std::int64_t>(index) * s.n;
  load_rows(side.x.of(index, s.heads), side.x.row, first, kRows, side.own, s.d, x);
  load_rows(side.gx.of(index, s.heads), side.gx.row, first, kRows, side.own, s.d, gx);
  float dx[kOwn][kChannels] = {}, dgx[kOwn][kChannels] = {};
  for (int tile = 0; tile < side.other; tile += kTile) {
    __syncthreads();
    load_rows(side.y.of(index, s.heads), side.y.row, tile, kTile, side.other, s.d, y);
    load_rows(side.gy.of(index, s.heads), side.gy.row, tile, kTile, side.other, s.d, gy);
    __syncthreads();
    float scores[kOwn], grads[kOwn];
    cuda::dots(x + own * pitch, y + lane * pitch, s.d, scores);
    cuda::dots(gx + own * pitch, gy + lane * pitch, s.d, grads);
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      const int row = first + own + r, query = kKeys ? tile + lane : row;
      float weight = 0, slope = 0;
      if (row < side.own && tile + lane < side.other) {
        weight = expf(scores[r] * s.scale - lse[queries + query]);
        slope = weight * (grads[r] - delta[queries + query]) * s.scale;
      }
      p[own + r][lane] = weight;
      ds[own + r][lane] = slope;
    }
    __syncwarp();
    cuda::add_tile(ds + own, y, s.d, dx);
    if (kKeys) cuda::add_tile(p + own, gy, s.d, dgx);
  }
  for (int r = 0; r < kOwn; ++r) {
    const int row = first + own + r;
    if (row >= side.own) continue;
#pragma unroll
    for (int part = 0; part < kChannels; ++part) {
      const int c = cuda::channel_of<kChannels>(lane, part);
      if (c >= s.d) continue;
      side.dx.of(index, s.heads)[row * side.dx.row + c] = dx[r][part];
      if (kKeys) side.dgx.of(index, s.heads)[row * side.dgx.row + c] = dgx[r][part];
    }
  }
}

// Part `which` of [B, N, parts H D], or with heads = 0 all of [B, H, N, D].
HeadRows output_of(const Tensor& x, std::int64_t heads, int which = 0, int parts = 1) {
  if (heads > 0) return token_heads<float>(x, heads, which, parts);
  return {x.data<float>(), x.shape().product(1, 4), x.shape().product(2, 4), x.dim(3)};
}

HeadRows operand_at(In operands, std::int64_t heads, int which) {
  return output_of(operands[heads > 0 ? 0 : which], heads, which, 3);
}

Sizes sizes_of(In operands, std::int64_t heads) {
  const Tensor& q = operands[0];
  const bool packed = heads > 0;
  const std::int64_t d = packed ? q.dim(2) / (3 * heads) : q.dim(3);
  const std::int64_t n = packed ? q.dim(1) : q.dim(2), m = packed ? n : operands[1].dim(2);
  cuda::check_sizes("attention", n, m, d);
  return {static_cast<int>(packed ? heads : q.dim(1)), static_cast<int>(n), static_cast<int>(m),
          static_cast<int>(d), static_cast<float>(1 / std::sqrt(static_cast<double>(d)))};
}

}  // namespace

void Attention::cuda(In in, Out out, CudaStream& stream) const {
  const Sizes s = sizes_of(in, heads);
  cuda::dispatch_channels(s.d, [&]<int kChannels>() {
    constexpr int kRows = kForwardRows<kChannels>;
    launch(forward<kChannels>, cuda::head_blocks(in[0].dim(0) * s.heads, s.n, kRows), kTileThreads,
           cuda::padded_bytes(kRows + 2 * kTile, s.d), stream, operand_at(in, heads, 0),
           operand_at(in, heads, 1), operand_at(in, heads, 2), output_of(out[0], heads),
           out[1].data<float>(), s);
  });
}

void AttentionBackward::cuda(In in, Out out, CudaStream& stream) const {
  const In operands = in.subspan(3);
  const Sizes s = sizes_of(operands, heads);
  const std::int64_t images = operands[0].dim(0);
  const auto x = [&](int which) { return operand_at(operands, heads, which); };
  const auto dx = [&](int which) { return operand_at(out, heads, which); };
  const HeadRows grad = output_of(in[0], heads), o = output_of(in[1], heads);
  const float* const lse = in[2].data<float>();
  const Tensor deltas = Tensor::empty(in[2].shape(), DType::f32, Device::cuda);
  float* const delta = deltas.data<float>();
  launch(row_deltas, cuda::blocks_for(deltas.numel(), kTileWarps), kTileThreads, 0, stream, grad, o,
         delta, deltas.numel(), s);
  const Side queries{x(0), grad, x(1), x(2), dx(0), {}, s.n, s.m};
  const Side keys{x(1), x(2), x(0), grad, dx(1), dx(2), s.m, s.n};
  cuda::dispatch_channels(s.d, [&]<int kChannels>() {
    constexpr int kRows = kBackwardRows<kChannels>;
    const std::size_t bytes = cuda::padded_bytes(2 * (kRows + kTile), s.d);
    launch(backward<false, kChannels>, cuda::head_blocks(images * s.heads, s.n, kRows),
           kTileThreads, bytes, stream, queries, lse, delta, s);
    launch(backward<true, kChannels>, cuda::head_blocks(images * s.heads, s.m, kRows), kTileThreads,
           bytes, stream, keys, lse, delta, s);
  });
}

}  // namespace hg::ops
