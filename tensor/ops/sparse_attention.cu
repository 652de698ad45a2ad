// A warp per query, or per kept key: its lanes take the pairs of the list for scores, and the
// channels for sums. The rows of a head that lists point to stay in L1 cache.
#include "tensor/ops/sparse_attention.h"

#include <cmath>

#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/philox.h"
#include "tensor/cuda/reduce.h"
#include "tensor/ops/attention/pair_support.cuh"

namespace hg::ops {
namespace {

using cuda::kAllLanes, cuda::kWarp;
constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr int kBlocks = 5;  // per multiprocessor: left to itself ptxas spills for more

struct Call {
  cuda::SupportsView supports;
  cuda::DropDraws drop;
  std::int64_t rows;  // queries of all heads
  int heads, n, d;
  float scale;
  bool rbf;
  bool fours;  // rows can be read by four channels
};

// The row of a warp, and its head.
struct WarpRow {
  int lane, image, row;
  std::int64_t at, tokens;  // of the row, and of row 0, in q and o
  cuda::HeadPairs head;
  __device__ WarpRow(const Call& c, std::int64_t index) {
    const int h = static_cast<int>(index / c.n % c.heads);
    lane = static_cast<int>(threadIdx.x) % kWarp;
    row = static_cast<int>(index % c.n);
    image = static_cast<int>(index / c.n / c.heads);
    const std::int64_t width = std::int64_t{c.heads} * c.d;
    tokens = std::int64_t{image} * c.n * width + std::int64_t{h} * c.d;
    at = tokens + row * width;
    head = c.supports.at(image, h);
  }
};

// How many pairs a query has, the place of the first among all, where its head's keys begin in k
// and v, and which of them it lists.
struct QueryPairs {
  std::int64_t n, first, keys;
  const std::uint16_t* others;
};
__device__ QueryPairs pairs_of_query(const WarpRow& at, int d) {
  const std::int64_t begin = at.head.by_query(at.row);
  return {at.head.by_query(at.row + 1) - begin, at.head.first_pair + begin, at.head.first_key * d,
          at.head.keys + begin};
}

__device__ std::int64_t warp_index() {
  return std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
}

// a.b; with rbf a.b - |b|^2 / 2
template <bool kRbf>
__device__ float score(const float* a, const float* b, const Call& c) {
  constexpr float kHalf = kRbf ? 0.5f : 0.0f;
  float sum = 0;
  if (c.fours) {
    const auto *const a4 = reinterpret_cast<const float4*>(a), *const b4 =
                                                                   reinterpret_cast<const float4*>(
                                                                       b);
    for (int i = 0; i < c.d / 4; ++i) {
      const float4 x = a4[i], y = b4[i];
      sum += y.x * (x.x - kHalf * y.x) + y.y * (x.y - kHalf * y.y) + y.z * (x.z - kHalf * y.z) +
             y.w * (x.w - kHalf * y.w);
    }
    return sum;
  }
  for (int i = 0; i < c.d; ++i) sum += b[i] * (a[i] - kHalf * b[i]);
  return sum;
}

// One term of a sum of rows.
struct Term {
  int row;
  float weight;
};

// to[c] = sum of weight row[c] over the n terms that term(p) names, less `pull` of[c]; each lane
// fetches a term, and all add it to their channels.
template <class TermOf>
__device__ void sum_rows(std::int64_t n, TermOf term, const float* table, std::int64_t stride,
                         int d, float pull, const float* of, float* to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int first = 0; first < d; first += 2 * kWarp) {
    const int c0 = first + lane, c1 = c0 + kWarp;
    float sum0 = 0, sum1 = 0;
    for (std::int64_t p = 0; p < n; p += kWarp) {
      const Term mine = p + lane < n ? term(p + lane) : Term{0, 0};
      const int count = n - p < kWarp ? static_cast<int>(n - p) : kWarp;
      for (int t = 0; t < count; ++t) {
        const float weight = __shfl_sync(kAllLanes, mine.weight, t);
        const float* const row = table + __shfl_sync(kAllLanes, mine.row, t) * stride;
        if (c0 < d) sum0 += weight * row[c0];
        if (c1 < d) sum1 += weight * row[c1];
      }
    }
    if (c0 < d) to[c0] = sum0 - (pull == 0 ? 0 : pull * of[c0]);
    if (c1 < d) to[c1] = sum1 - (pull == 0 ? 0 : pull * of[c1]);
  }
}

template <bool kRbf>
__global__ void __launch_bounds__(kThreads, kBlocks)
    forward(Call c, const float* q, const float* k, const float* v, float* o, float* weights) {
  const std::int64_t index = warp_index();
  if (index >= c.rows) return;
  const WarpRow at(c, index);
  const auto [n, first, keys, others] = pairs_of_query(at, c.d);
  float* const w = weights + first;
  float top = -INFINITY, sum = 0;
  for (std::int64_t p = at.lane; p < n; p += kWarp) {
    w[p] = score<kRbf>(q + at.at, k + keys + std::int64_t{others[p]} * c.d, c) * c.scale;
    top = cuda::Greater{}(top, w[p]);
  }
  top = cuda::over_warp(top, cuda::Greater{});
  for (std::int64_t p = at.lane; p < n; p += kWarp) {
    w[p] = expf(w[p] - top);
    sum += w[p];
  }
  const float inverse = 1 / cuda::over_warp(sum, cuda::Plus{});
  for (std::int64_t p = at.lane; p < n; p += kWarp) w[p] *= inverse;
  const auto term = [&](std::int64_t p) { return Term{others[p], w[p] * c.drop.kept(first + p)}; };
  sum_rows(n, term, v + keys, c.d, c.d, 0, nullptr, o + at.at);
}

// ds = p (do.v - do.o) scale, with do.v multiplied as its weight was; dq_i = sum_j ds_ij k_j, with
// rbf the same, the part of q_i itself adding up to 0.
__global__ void __launch_bounds__(kThreads)
    by_query(Call c, const float* grad, const float* o, const float* weights, const float* k,
             const float* v, float* ds, float* dq) {
  const std::int64_t index = warp_index();
  if (index >= c.rows) return;
  const WarpRow at(c, index);
  const auto [n, first, keys, others] = pairs_of_query(at, c.d);
  const float delta = cuda::warp_dot(grad + at.at, o + at.at, c.d);
  for (std::int64_t p = at.lane; p < n; p += kWarp) {
    const float g = score<false>(grad + at.at, v + keys + std::int64_t{others[p]} * c.d, c);
    ds[first + p] = weights[first + p] * (g * c.drop.kept(first + p) - delta) * c.scale;
  }
  const auto term = [&](std::int64_t p) { return Term{others[p], ds[first + p]}; };
  sum_rows(n, term, k + keys, c.d, c.d, 0, nullptr, dq + at.at);
}

// dv_j = sum_i w_ij do_i and dk_j = sum_i ds_ij q_i, with rbf less (sum_i ds_ij) k_j, of kept keys
__global__ void __launch_bounds__(kThreads)
    by_key(Call c, const float* grad, const float* weights, const float* ds, const float* q,
           const float* k, float* dk, float* dv) {
  const std::int64_t index = warp_index();
  if (index >= c.rows) return;
  const WarpRow at(c, index);
  if (at.row >= at.head.kept) return;
  const std::int64_t begin = at.head.by_key(at.row), n = at.head.by_key(at.row + 1) - begin;
  const std::uint16_t* const others = at.head.queries + begin;
  const std::uint32_t* const places = at.head.places + begin;
  const std::int64_t first = at.head.first_pair, width = std::int64_t{c.heads} * c.d;
  const std::int64_t key = (at.head.first_key + at.row) * c.d;
  const auto weight = [&](std::int64_t p) {
    const std::int64_t pair = first + places[p];
    return Term{others[p], weights[pair] * c.drop.kept(pair)};
  };
  const auto slope = [&](std::int64_t p) { return Term{others[p], ds[first + places[p]]}; };
  float pull = 0;
  for (std::int64_t p = at.lane; p < n && c.rbf; p += kWarp) pull += slope(p).weight;
  if (c.rbf) pull = cuda::over_warp(pull, cuda::Plus{});
  sum_rows(n, weight, grad + at.tokens, width, c.d, 0, nullptr, dv + key);
  sum_rows(n, slope, q + at.tokens, width, c.d, pull, k + key, dk + key);
}

Call call_of(const SparseAttentionOptions& o, const cuda::DeviceSupports& supports, In rows) {
  const Tensor& q = rows[0];
  const std::int64_t heads = o.supports[0]->heads(), d = q.dim(2) / heads;
  bool fours = d % 4 == 0;
  for (const Tensor& t : rows) fours = fours && cuda::in_fours(t.raw());
  return {supports.view(),
          cuda::DropDraws(o.dropout, o.key, o.first),
          q.dim(0) * heads * q.dim(1),
          static_cast<int>(heads),
          static_cast<int>(q.dim(1)),
          static_cast<int>(d),
          static_cast<float>(1 / std::sqrt(static_cast<double>(d))),
          o.rbf,
          fours};
}

}  // namespace

void SparseAttention::cuda(In in, Out out, CudaStream& stream) const {
  const cuda::DeviceSupports supports(options.supports);
  const Call c = call_of(options, supports, in);
  launch(options.rbf ? forward<true> : forward<false>, cuda::blocks_for(c.rows, kWarps), kThreads,
         0, stream, c, in[0].data<float>(), in[1].data<float>(), in[2].data<float>(),
         out[0].data<float>(), out[1].data<float>());
}

void SparseAttentionBackward::cuda(In in, Out out, CudaStream& stream) const {
  const cuda::DeviceSupports supports(options.supports);
  const Tensors rows{in[3], in[0], in[5]};
  const Call c = call_of(options, supports, rows);
  const Tensor slopes = Tensor::empty(in[2].shape(), DType::f32, Device::cuda);
  const float *const grad = in[0].data<float>(), *const weights = in[2].data<float>();
  const float* const k = in[4].data<float>();
  float* const ds = slopes.data<float>();
  const unsigned blocks = cuda::blocks_for(c.rows, kWarps);
  launch(by_query, blocks, kThreads, 0, stream, c, grad, in[1].data<float>(), weights, k,
         in[5].data<float>(), ds, out[0].data<float>());
  launch(by_key, blocks, kThreads, 0, stream, c, grad, weights, ds, in[3].data<float>(), k,
         out[1].data<float>(), out[2].data<float>());
}

}  // namespace hg::ops
