// Two passes over the scores forward, for the sum of a row's weights and then with the weights;
// none of them reaches global memory but the few rows that a threshold is searched in. Gradients
// are summed by the block that owns their row, in order.
#include "tensor/ops/quadratic_attention.h"

#include "tensor/cuda_device.h"
#include "tensor/ops/attention/quadratic_backward.cuh"
#include "tensor/ops/attention/quadratic_forward.cuh"
#include "tensor/ops/attention/quadratic_prior.cuh"

namespace hg::ops {
namespace {

using cuda::kForwardRows, cuda::kTile, cuda::kTileThreads, cuda::kTileWarps, cuda::kWarp;
using cuda::QuadraticCall, cuda::QuadraticDevice, cuda::QuadraticGrads, cuda::QueryBlock;
using Map = QuadraticOptions::Map;
using Prior = QuadraticOptions::Prior;
using Spread = QuadraticOptions::Spread;

bool is_sparse(const QuadraticOptions& o) {
  return o.map == Map::sparsemax || o.map == Map::entmax15;
}

constexpr int kMostPasses = 100;
constexpr std::int64_t kSearches = 1024;  // blocks whose rows of scores exist at a time

// The sum over a row's z > bound of f(z); each lane has its own elements.
__device__ float sum_above(const float* z, int m, float bound, auto f) {
  float sum = 0;
  for (int j = static_cast<int>(threadIdx.x) % kWarp; j < m; j += kWarp)
    if (z[j] > bound) sum += f(z[j]);
  return cuda::over_warp(sum, cuda::Plus{});
}

// As on the CPU (tensor/ops/attention/sparse_maps.h): Michelot's algorithm, Newton's steps.
__device__ float sparsemax_threshold(const float* z, int m, float top) {
  float t = -1, count = 0;  // of z - top
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const float above = sum_above(z, m, top + t, [](float) { return 1.0f; });
    const float sum = sum_above(z, m, top + t, [top](float x) { return x - top; });
    if (above == count) break;
    count = above;
    t = (sum - 1) / count;
  }
  return top + t;
}
__device__ float entmax15_threshold(const float* z, int m, float top) {
  float t = -1;  // of (z - top) / 2
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const float shift = 0.5f * top + t, bound = top + 2 * t;
    const float sum = sum_above(z, m, bound, [shift](float x) { return 0.5f * x - shift; });
    const float squares = sum_above(z, m, bound, [shift](float x) {
      const float u = 0.5f * x - shift;
      return u * u;
    });
    const float step = (squares - 1) / (2 * sum);
    if (!(step > 0x1p-24f)) break;
    t += step;
  }
  return 0.5f * top + t;
}

// The scores of a block's rows go to its part of `rows`, [blocks, kForwardRows, m].
__global__ void __launch_bounds__(kTileThreads, cuda::kBlocksPerUnit)
    row_thresholds(QuadraticCall c, std::int64_t units, float* rows, float* thresholds) {
  HG_DYN_SHARED(float, shared);
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const QueryBlock at(unit, c.n);
    float* const z = rows + (std::int64_t{blockIdx.x} * kForwardRows + at.own) * c.m;
    cuda::for_scores(
        c, at, shared,
        [&](int row, int, int, int j, float logit) { z[std::int64_t{row} * c.m + j] = logit; },
        [](int) {});
    for (int row = 0; row < QueryBlock::kOwn; ++row) {
      const int i = at.first + at.own + row;
      if (i >= c.n) continue;
      const float* const mine = z + std::int64_t{row} * c.m;
      float top = -INFINITY;
      for (int j = at.lane; j < c.m; j += kWarp) top = cuda::Greater{}(top, mine[j]);
      top = cuda::over_warp(top, cuda::Greater{});
      const float threshold = c.map == Map::sparsemax ? sparsemax_threshold(mine, c.m, top)
                                                      : entmax15_threshold(mine, c.m, top);
      if (at.lane == 0) thresholds[c.row(at.index, i)] = threshold;
    }
  }
}

__device__ float spread_term(Spread spread, float a, float small) {
  if (spread == Spread::entropy) return a > 0 ? -a * logf(a) : 0;
  if (spread == Spread::squares) return a * a;
  return a < small ? 1 : 0;
}

constexpr int kWeighBlocks = 3;  // ptxas would spill for 4

// o = sum of the weights of a row times the values. kChannels: of a row, per lane.
template <int kChannels>
__global__ void __launch_bounds__(kTileThreads, kWeighBlocks)
    weigh_values(QuadraticCall c, const float* statistics, cuda::HeadRows o, float* spread) {
  constexpr int kOwn = QueryBlock::kOwn;
  HG_DYN_SHARED(float, shared);
  HG_SHARED(float, weights, [kForwardRows][kTile]);
  float* const values = shared + (kForwardRows + kTile) * cuda::padded(c.d);
  const QueryBlock at(blockIdx.x, c.n);
  const float small = static_cast<float>(QuadraticOptions::kSmall) / static_cast<float>(c.m);
  float sums[kOwn][kChannels] = {}, spreads[kOwn] = {}, statistic[kOwn], pair[kOwn];
#pragma unroll
  for (int row = 0; row < kOwn; ++row) {
    const int i = at.first + at.own + row;
    statistic[row] = i < c.n ? statistics[c.row(at.index, i)] : 0;
    pair[row] = cuda::empty_pair(c.map);
  }
  const auto add = [&](int row, int r, int i, int j, float logit) {
    pair[row] =
        cuda::add_logit(c.map, pair[row], logit, c.prior_of(at.index, i, j, r), statistic[row]);
  };
  const auto end_tile = [&](int tile) {
#pragma unroll
    for (int row = 0; row < kOwn; ++row) {
      const int i = at.first + at.own + row, j = tile + at.lane;
      const float a = cuda::weight_of(c.map, pair[row], statistic[row]);
      pair[row] = cuda::empty_pair(c.map);
      if (spread && j < c.m) spreads[row] += spread_term(c.spread, a, small);
      weights[at.own + row][at.lane] = i < c.n && j < c.m ? a * c.kept(at.index, i, j) : 0;
    }
    __syncthreads();
    cuda::load_rows(c.v.of(at.index, c.heads), c.v.row, tile, kTile, c.m, c.d, values);
    __syncthreads();
    cuda::add_tile(weights + at.own, values, c.d, sums);
  };
  cuda::for_scores(c, at, shared, add, end_tile);
#pragma unroll
  for (int row = 0; row < kOwn; ++row) {
    const int i = at.first + at.own + row;
    if (i >= c.n) continue;
    float* const to = o.of(at.index, c.heads) + i * o.row;
#pragma unroll
    for (int part = 0; part < kChannels; ++part)
      if (const int ch = cuda::channel_of<kChannels>(at.lane, part); ch < c.d)
        to[ch] = sums[row][part];
    if (!spread) continue;
    const float sum = cuda::over_warp(spreads[row], cuda::Plus{});
    if (at.lane == 0) spread[c.row(at.index, i)] = sum;
  }
}

// shares[j][r] = sum over queries of w_jr exp(l_jr - l_j) / (its sum over r), l_j the pair's
// largest logit: so no pair is too far away to have shares. A warp per key, its lanes take the
// queries; a lane has R logits and R sums in shared memory.
__global__ void __launch_bounds__(kTileThreads)
    key_shares(QuadraticCall c, std::int64_t keys, float* shares) {
  HG_DYN_SHARED(float, shared);
  const std::int64_t key = std::int64_t{blockIdx.x} * kTileWarps + threadIdx.x / kWarp;
  if (key >= keys) return;
  const int index = static_cast<int>(key / c.m), j = static_cast<int>(key % c.m);
  const int lane = threadIdx.x % kWarp;
  float *const logits = shared + threadIdx.x, *const sums = logits + c.components * kTileThreads;
  for (int r = 0; r < c.components; ++r) sums[r * kTileThreads] = 0;
  for (int i = lane; i < c.n; i += kWarp) {
    float top = -INFINITY, sum = 0;
    for (int r = 0; r < c.components; ++r) {
      const float logit = cuda::logit_of(c, r, index, i, j);
      logits[r * kTileThreads] = logit;
      if (c.prior_of(index, i, j, r) != 0) top = cuda::Greater{}(top, logit);
    }
    for (int r = 0; r < c.components; ++r) {
      const float w = c.prior_of(index, i, j, r), e = logits[r * kTileThreads];
      logits[r * kTileThreads] = w == 0 ? 0 : w * expf(e - top);
      sum += logits[r * kTileThreads];
    }
    for (int r = 0; r < c.components && sum != 0; ++r)
      sums[r * kTileThreads] += logits[r * kTileThreads] / sum;
  }
  for (int r = 0; r < c.components; ++r) {
    const float sum = cuda::over_warp(sums[r * kTileThreads], cuda::Plus{});
    if (lane == 0) shares[key * c.components + r] = sum;
  }
}

// What a query's pairs share: do.o - dlse, and the spread's part. A warp per query; with priors the
// logarithm of all weights, too.
struct RowInputs {
  cuda::HeadRows grad, o;
  const float *lse, *grad_lse, *spread, *grad_spread;  // all but lse may be null
};
__global__ void __launch_bounds__(kTileThreads)
    row_constants(QuadraticCall c, RowInputs in, std::int64_t rows, float* shared, float* total) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kTileWarps + threadIdx.x / kWarp;
  if (at >= rows) return;
  const int index = static_cast<int>(at / c.n), i = static_cast<int>(at % c.n);
  const int lane = threadIdx.x % kWarp;
  const float* const g = in.grad.of(index, c.heads) + i * in.grad.row;
  const float* const y = in.o.of(index, c.heads) + i * in.o.row;
  float sum = cuda::warp_dot(g, y, c.d);
  if (in.grad_lse) sum -= in.grad_lse[at];
  if (in.grad_spread) {
    const float value = in.spread[at], e = in.grad_spread[at];
    sum += c.spread == Spread::entropy ? e * (value - 1) : 2 * e * value;
  }
  const float largest = total ? cuda::largest_prior(c, index, i) : 1;
  if (lane != 0) return;
  shared[at] = sum;
  if (total)
    total[at] = largest == 0 ? INFINITY : c.likelihood ? in.lse[at] : in.lse[at] + logf(largest);
}

Tensor row_tensor(const QuadraticDevice& device) {
  return Tensor::empty({device.heads(), device.call().n}, DType::f32, Device::cuda);
}

void search_thresholds(const QuadraticDevice& device, float* thresholds, CudaStream& stream) {
  const QuadraticCall& c = device.call();
  const std::int64_t units = cuda::head_blocks(device.heads(), c.n, kForwardRows);
  const std::int64_t blocks = std::min(units, kSearches);
  const Tensor rows = Tensor::empty({blocks, kForwardRows, c.m}, DType::f32, Device::cuda);
  launch(row_thresholds, cuda::blocks_for(blocks, 1), kTileThreads, cuda::score_bytes(c.d), stream,
         c, units, rows.data<float>(), thresholds);
}

}  // namespace

void QuadraticAttention::cuda(In in, Out out, CudaStream& stream) const {
  const QuadraticDevice device(options, in, stream);
  const QuadraticCall& c = device.call();
  const cuda::HeadRows o = token_heads<float>(out[0], options.heads);
  float* const lse = out[1].data<float>();
  const Tensor totals = options.prior != Prior::none ? row_tensor(device) : out[1];
  if (is_sparse(options))
    search_thresholds(device, lse, stream);
  else
    cuda::launch_row_sums(device, lse,
                          options.prior != Prior::none ? totals.data<float>() : nullptr, stream);
  const float* const statistics = totals.data<float>();
  float* const spread =
      options.spread == Spread::none ? nullptr : out[options.spread_output()].data<float>();
  cuda::dispatch_channels(c.d, [&]<int kChannels>() {
    launch(weigh_values<kChannels>, cuda::head_blocks(device.heads(), c.n, kForwardRows),
           kTileThreads, cuda::padded_bytes(kForwardRows + 2 * kTile, c.d), stream, c, statistics,
           o, spread);
  });
  if (!options.responsibilities) return;
  const std::int64_t keys = device.heads() * c.m;
  launch(key_shares, cuda::blocks_for(keys, kTileWarps), kTileThreads,
         sizeof(float) * 2 * static_cast<std::size_t>(c.components) * kTileThreads, stream, c, keys,
         out[2].data<float>());
}

void QuadraticAttentionBackward::cuda(In in, Out out, CudaStream& stream) const {
  const In forward = in.subspan(static_cast<std::size_t>(before()));
  const QuadraticDevice device(options, forward, stream);
  const QuadraticCall& c = device.call();
  const bool prior = options.prior != Prior::none;
  RowInputs rows{token_heads<float>(in[0], options.heads),
                 token_heads<float>(in[1], options.heads),
                 in[2].data<float>(),
                 options.likelihood ? in[3].data<float>() : nullptr,
                 nullptr,
                 nullptr};
  if (options.spread_gradient()) {
    rows.spread = in[spread_input()].data<float>();
    rows.grad_spread = in[spread_input() + 1].data<float>();
  }
  const Tensor shared = row_tensor(device), totals = prior ? row_tensor(device) : in[2];
  const Tensor table = wants_prior ? out[out.size() - 1] : Tensor();
  const bool by_pair = wants_prior && c.prior.query != 0;
  const Tensor prior_sums =
      wants_prior && !by_pair
          ? Tensor::empty({device.heads(), c.components, c.m}, DType::f32, Device::cuda)
          : Tensor();
  QuadraticGrads grads{};
  grads.grad = rows.grad;
  grads.dq = base_operand<float>(options, out, 0), grads.dv = base_operand<float>(options, out, 2);
  for (int r = 0; r < c.components; ++r) grads.dk[r] = key_operand<float>(options, out, r);
  grads.statistic = totals.data<float>(), grads.shared = shared.data<float>();
  grads.grad_spread = rows.grad_spread;
  grads.prior_sums = prior_sums.defined() ? prior_sums.data<float>() : nullptr;
  if (is_sparse(options))
    cuda::launch_row_means(device, grads, shared.data<float>(), stream);
  else
    launch(row_constants, cuda::blocks_for(shared.numel(), kTileWarps), kTileThreads, 0, stream, c,
           rows, shared.numel(), shared.data<float>(), prior ? totals.data<float>() : nullptr);
  if (options.replace_keys) {  // those in qkv have no part in it
    const Tensor& own = out[options.apart ? 1 : 0];
    cuda::backend().fill_zero(own.raw(), own.bytes());
  }
  cuda::launch_side<false, cuda::kSlopes>(device, grads, stream);
  cuda::launch_side<true, cuda::kSlopes | cuda::kValues>(device, grads, stream);
  if (by_pair) cuda::launch_pair_priors(device, grads, table, stream);
  if (prior_sums.defined()) cuda::launch_key_priors(device, prior_sums, table, stream);
}

}  // namespace hg::ops
