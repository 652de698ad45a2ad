// Gradients of quadratic attention's priors: elements of the table are owned by threads, which add
// up in order what images and tokens leave there.
#pragma once

#include "tensor/cuda_device.h"
#include "tensor/ops/attention/quadratic_backward.cuh"

namespace hg::cuda {

// A table by key: of each element, the sums of [B,H,R,M] that name it.
static __global__ void __launch_bounds__(kTileThreads)
    key_priors(QuadraticCall c, const float* sums, int images, int table_heads, int positions,
               float* table) {
  const int at = static_cast<int>(blockIdx.x) * kTileThreads + static_cast<int>(threadIdx.x);
  if (at >= table_heads * positions * c.components) return;
  const int r = at % c.components, position = at / c.components % positions;
  const int head = at / c.components / positions;
  float sum = 0;
  for (int index = 0; index < images * c.heads; ++index) {
    if (table_heads > 1 && index % c.heads != head) continue;
    const float* const row = sums + (static_cast<std::int64_t>(index) * c.components + r) * c.m;
    const bool direct = positions > 1 && !c.prior.ids;
    for (int j = direct ? position : 0; j < (direct ? position + 1 : c.m); ++j)
      if (direct || positions == 1 || c.prior.position(index / c.heads, j) == position)
        sum += row[j];
  }
  table[at] = sum * c.prior.slope(at);
}

inline void launch_key_priors(const QuadraticDevice& device, const Tensor& sums,
                              const Tensor& table, CudaStream& stream) {
  const QuadraticCall& c = device.call();
  launch(key_priors, blocks_for(table.numel(), kTileThreads), kTileThreads, 0, stream, c,
         static_cast<const float*>(sums.data<float>()), static_cast<int>(device.heads()) / c.heads,
         static_cast<int>(table.dim(0)), static_cast<int>(table.dim(2)), table.data<float>());
}

// Up to kBackwardRows queries from `next` on whose position is one of a group of so many; returns
// where to go on. The first warp calls.
__device__ inline int find_queries(const DevicePrior& prior, int image, int n, int first_position,
                                   int next, int* queries, int* count) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int found = 0;
  for (; next < n && found < kBackwardRows; next += kWarp) {
    const int i = next + lane;
    const std::int64_t group = i < n ? prior.query_position(image, i) - first_position : -1;
    const bool match = group >= 0 && group < kBackwardRows;
    const unsigned all = __ballot_sync(kAllLanes, match);
    const int place = found + __popc(all & ((1u << lane) - 1));
    if (match && place < kBackwardRows) queries[place] = i;
    found += __popc(all);
  }
  __syncwarp();
  if (lane == 0) *count = found < kBackwardRows ? found : kBackwardRows;
  return found > kBackwardRows ? queries[kBackwardRows - 1] + 1 : next;
}

// A table by query and key: a block owns rows of it, its threads the columns by turns.
static __global__ void __launch_bounds__(kTileThreads, kBlocksPerUnit)
    pair_priors(QuadraticCall c, QuadraticGrads grads, int images, int positions, float* table) {
  constexpr int kOwn = kBackwardRows / kTileWarps;
  HG_DYN_SHARED(float, shared);
  HG_SHARED(float, slopes, [kBackwardRows][kTile]);
  HG_SHARED(int, queries, [kBackwardRows]);
  HG_SHARED(int, found, [2]);  // how many, and where to go on
  const int pitch = padded(c.d), groups = (positions + kBackwardRows - 1) / kBackwardRows;
  const int h = static_cast<int>(blockIdx.x) / groups;
  const int first = static_cast<int>(blockIdx.x) % groups * kBackwardRows;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int own = thread / kWarp * kOwn;
  float *const q = shared, *const grad = q + kBackwardRows * pitch;
  float *const k = grad + kBackwardRows * pitch, *const v = k + kTile * pitch;
  for (int image = 0; image < images; ++image) {
    const int index = image * c.heads + h;
    const bool by_index = !c.prior.ids && !c.prior.query_ids;
    int next = by_index ? first : 0;
    while (next < (by_index && first + kBackwardRows < c.n ? first + kBackwardRows : c.n)) {
      __syncthreads();
      if (thread < kWarp) {
        const int on = find_queries(c.prior, image, c.n, first, next, queries, &found[0]);
        if (lane == 0) found[1] = on;
      }
      __syncthreads();
      const int count = found[0];
      next = found[1];
      for (int at = thread; at < kBackwardRows * c.d; at += kTileThreads) {
        const int row = at / c.d, ch = at % c.d;
        const bool there = row < count;
        const std::int64_t i = there ? queries[row] : 0;
        q[row * pitch + ch] = there ? c.q.of(index, c.heads)[i * c.q.row + ch] : 0;
        grad[row * pitch + ch] = there ? grads.grad.of(index, c.heads)[i * grads.grad.row + ch] : 0;
      }
      for (int tile = 0; tile < c.m && count > 0; tile += kTile)
        for (int r = 0; r < c.components; ++r) {
          __syncthreads();
          load_rows(c.k[r].of(index, c.heads), c.k[r].row, tile, kTile, c.m, c.d, k);
          load_rows(c.v.of(index, c.heads), c.v.row, tile, kTile, c.m, c.d, v);
          __syncthreads();
          float scores[kOwn], values[kOwn];
          dots(q + own * pitch, k + lane * pitch, c.d, scores);
          dots(grad + own * pitch, v + lane * pitch, c.d, values);
#pragma unroll
          for (int row = 0; row < kOwn; ++row) {
            const int i = own + row < count ? queries[own + row] : c.n, j = tile + lane;
            float slope = 0;
            if (c.sees(i, j)) {
              const PairGradient pair =
                  pair_gradient(c, grads, r, index, i, j, scores[row], values[row]);
              slope = pair.e * (pair.g - grads.shared[c.row(index, i)]);
            }
            slopes[own + row][lane] = slope;
          }
          __syncthreads();
          for (int key = 0; key < kTile && tile + key < c.m; ++key) {
            const std::int64_t column = c.prior.position(image, tile + key);
            if (column % kTileThreads != thread || column < 0 || column >= positions) continue;
            for (int row = 0; row < count; ++row) {
              const std::int64_t position = c.prior.query_position(image, queries[row]);
              table[h * c.prior.head + position * c.prior.query + column * c.prior.key +
                    r * c.prior.component] += slopes[row][key];
            }
          }
        }
    }
  }
  for (int row = first; row < first + kBackwardRows && row < positions; ++row)
    for (int column = thread; column < positions; column += kTileThreads)
      for (int r = 0; r < c.components; ++r) {
        const std::int64_t at =
            h * c.prior.head + row * c.prior.query + column * c.prior.key + r * c.prior.component;
        table[at] *= c.prior.slope(at);
      }
}

inline void launch_pair_priors(const QuadraticDevice& device, const QuadraticGrads& grads,
                               const Tensor& table, CudaStream& stream) {
  const QuadraticCall& c = device.call();
  backend().fill_zero(table.raw(), table.bytes());
  const auto positions = static_cast<int>(table.dim(1));
  launch(pair_priors, head_blocks(c.heads, positions, kBackwardRows), kTileThreads,
         padded_bytes(2 * (kBackwardRows + kTile), c.d), stream, c, grads,
         static_cast<int>(device.heads()) / c.heads, positions, table.data<float>());
}

}  // namespace hg::cuda
