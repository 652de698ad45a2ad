// A warp per query, or per key: its lanes take the tokens of its groups for scores, and the
// channels for sums. Scores are computed again wherever they are needed.
#include "tensor/ops/group_attention.h"

#include <cmath>

#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/philox.h"
#include "tensor/cuda/reduce.h"
#include "tensor/ops/attention/group_operands.h"
#include "tensor/transfer.h"

namespace hg::ops {
namespace {

using cuda::kAllLanes, cuda::kWarp;
constexpr int kThreads = 128, kWarps = kThreads / kWarp;
using HeadRows = TokenHeads<float>;

struct Call {
  const std::int64_t* images;  // pointers to the groups of each image; null: all have `shared`
  const std::int32_t* shared;
  cuda::DropDraws drop;
  HeadRows q, k, v;
  std::int64_t batch;
  int heads, n, m, d;
  float scale;

  __device__ Grouping groups_of(std::int64_t head) const {
    const auto image = head / heads;
    const auto* const data = images ? reinterpret_cast<const std::int32_t*>(images[image]) : shared;
    return TokenGroups::view(data, head % heads);
  }
};

// The token of a warp, of `tokens` in each head.
struct WarpToken {
  int lane, token;
  std::int64_t head;
  Grouping g;
  __device__ WarpToken(const Call& c, std::int64_t index, int tokens)
      : lane(static_cast<int>(threadIdx.x) % kWarp),
        token(static_cast<int>(index % tokens)),
        head(index / tokens),
        g(c.groups_of(head)) {}
};

__device__ std::int64_t warp_of_call() {
  return std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
}

__device__ float dot_of(const float* a, const float* b, int d) {
  float sum = 0;
  for (int i = 0; i < d; ++i) sum += a[i] * b[i];
  return sum;
}

// body(list, count, round) for the keys of a query, or the queries of a key; a list that is null is
// 0 .. count - 1.
template <class Body>
__device__ void for_lists(const Grouping& g, int token, bool of_query, Body body) {
  const int first = of_query ? g.group_of_query(0, token) : g.group_of_key(0, token);
  if (first == Grouping::kEverywhere) return body(nullptr, of_query ? g.keys : g.queries, 0);
  if (of_query)
    body(g.free_key, g.free_keys, 0);
  else
    body(g.free_query, g.free_queries, 0);
  for (int r = 0; r < g.rounds; ++r) {
    const Grouping::List list = of_query ? g.keys_of(r, g.group_of_query(r, token))
                                         : g.queries_of(r, g.group_of_key(r, token));
    body(list.tokens, list.count, r);
  }
}

// to[c] = sum of weight row[c] over all tokens of the lists, with weights weight(token, round),
// which each lane computes for its own one.
template <class Weight>
__device__ void sum_rows(const WarpToken& at, bool of_query, Weight weight, const float* table,
                         std::int64_t stride, int d, float* to) {
  for (int first = 0; first < d; first += 2 * kWarp) {
    const int c0 = first + at.lane, c1 = c0 + kWarp;
    float sum0 = 0, sum1 = 0;
    for_lists(at.g, at.token, of_query, [&](const std::int32_t* list, int count, int round) {
      for (int p = 0; p < count; p += kWarp) {
        const int place = p + at.lane;
        const int mine = place < count ? (list ? list[place] : place) : 0;
        const float own = place < count ? weight(mine, round) : 0;
        const int here = count - p < kWarp ? count - p : kWarp;
        for (int t = 0; t < here; ++t) {
          const float w = __shfl_sync(kAllLanes, own, t);
          const float* const row = table + __shfl_sync(kAllLanes, mine, t) * stride;
          if (c0 < d) sum0 += w * row[c0];
          if (c1 < d) sum1 += w * row[c1];
        }
      }
    });
    if (c0 < d) to[c0] = sum0;
    if (c1 < d) to[c1] = sum1;
  }
}

__device__ std::int64_t pair_of(const Call& c, std::int64_t head, int i, int j) {
  return (head * c.n + i) * c.m + j;
}

__global__ void __launch_bounds__(kThreads) forward(Call c, HeadRows o, float* lse) {
  const std::int64_t index = warp_of_call();
  if (index >= c.batch * c.heads * c.n) return;
  const WarpToken at(c, index, c.n);
  const int head = static_cast<int>(at.head);
  const float* const q = c.q.of(head, c.heads) + at.token * c.q.row;
  const float *const k = c.k.of(head, c.heads), *const v = c.v.of(head, c.heads);
  float top = -INFINITY;
  for_lists(at.g, at.token, true, [&](const std::int32_t* list, int count, int round) {
    for (int p = at.lane; p < count; p += kWarp) {
      const int j = list ? list[p] : p;
      if (!at.g.masked(at.token, j, round))
        top = cuda::Greater{}(top, c.scale * dot_of(q, k + j * c.k.row, c.d));
    }
  });
  top = cuda::over_warp(top, cuda::Greater{});
  const auto raised = [&](int j, int round) {
    if (at.g.masked(at.token, j, round)) return 0.0f;
    return expf(c.scale * dot_of(q, k + j * c.k.row, c.d) - top);
  };
  float sum = 0;
  for_lists(at.g, at.token, true, [&](const std::int32_t* list, int count, int round) {
    for (int p = at.lane; p < count; p += kWarp) sum += raised(list ? list[p] : p, round);
  });
  sum = cuda::over_warp(sum, cuda::Plus{});
  const float inverse = 1 / sum;
  const auto weight = [&](int j, int round) {
    return raised(j, round) * inverse * c.drop.kept(pair_of(c, at.head, at.token, j));
  };
  sum_rows(at, true, weight, v, c.v.row, c.d, o.of(head, c.heads) + at.token * o.row);
  if (at.lane == 0) lse[index] = top + logf(sum);
}

// What both kernels of the gradient read.
struct Gradient {
  HeadRows grad_o, o;
  const float* lse;
  float* deltas;
};

// Weight of pair (i, j) before dropout, and its score's gradient.
struct PairSlope {
  float weight, slope;
};
__device__ PairSlope slope_of(const Call& c, const Gradient& to, const WarpToken& at, int i, int j,
                              int round) {
  if (at.g.masked(i, j, round)) return {0, 0};
  const int head = static_cast<int>(at.head);
  const float* const q = c.q.of(head, c.heads) + i * c.q.row;
  const float* const grad = to.grad_o.of(head, c.heads) + i * to.grad_o.row;
  const float s = dot_of(q, c.k.of(head, c.heads) + j * c.k.row, c.d);
  const float g = dot_of(grad, c.v.of(head, c.heads) + j * c.v.row, c.d) *
                  c.drop.kept(pair_of(c, at.head, i, j));
  const std::int64_t row = at.head * c.n + i;
  const float p = expf(c.scale * s - to.lse[row]);
  return {p, p * (g - to.deltas[row]) * c.scale};
}

__global__ void __launch_bounds__(kThreads) by_query(Call c, Gradient to, HeadRows dq) {
  const std::int64_t index = warp_of_call();
  if (index >= c.batch * c.heads * c.n) return;
  const WarpToken at(c, index, c.n);
  const int head = static_cast<int>(at.head);
  const float delta = cuda::warp_dot(to.grad_o.of(head, c.heads) + at.token * to.grad_o.row,
                                     to.o.of(head, c.heads) + at.token * to.o.row, c.d);
  if (at.lane == 0) to.deltas[index] = delta;
  __syncwarp();
  const auto slope = [&](int j, int round) {
    return slope_of(c, to, at, at.token, j, round).slope;
  };
  sum_rows(at, true, slope, c.k.of(head, c.heads), c.k.row, c.d,
           dq.of(head, c.heads) + at.token * dq.row);
}

__global__ void __launch_bounds__(kThreads) by_key(Call c, Gradient to, HeadRows dk, HeadRows dv) {
  const std::int64_t index = warp_of_call();
  if (index >= c.batch * c.heads * c.m) return;
  const WarpToken at(c, index, c.m);
  const int head = static_cast<int>(at.head), j = at.token;
  const auto weight = [&](int i, int round) {
    return slope_of(c, to, at, i, j, round).weight * c.drop.kept(pair_of(c, at.head, i, j));
  };
  const auto slope = [&](int i, int round) { return slope_of(c, to, at, i, j, round).slope; };
  sum_rows(at, false, weight, to.grad_o.of(head, c.heads), to.grad_o.row, c.d,
           dv.of(head, c.heads) + j * dv.row);
  sum_rows(at, false, slope, c.q.of(head, c.heads), c.q.row, c.d,
           dk.of(head, c.heads) + j * dk.row);
}

// Pointers to the groups of each image, on the device; undefined if all share theirs.
Tensor image_table(const GroupsOfImages& groups) {
  if (groups.size() == 1) return {};
  const Tensor table = Tensor::empty({static_cast<std::int64_t>(groups.size())}, DType::i64);
  for (std::size_t b = 0; b < groups.size(); ++b)
    table.data<std::int64_t>()[b] =
        reinterpret_cast<std::int64_t>(groups[b]->on_device().data<std::uint8_t>());
  return to_device(table, Device::cuda);
}

Call call_of(const GroupAttentionOptions& o, const Tensor& table, In operands) {
  const GroupSizes s(o.heads, o.apart, operands);
  const auto operand = [&](int which) {
    return group_operand<float>(o.heads, o.apart, operands, which);
  };
  Call c{};
  if (table.defined())
    c.images = table.data<std::int64_t>();
  else
    c.shared = reinterpret_cast<const std::int32_t*>(o.groups[0]->on_device().data<std::uint8_t>());
  c.drop = cuda::DropDraws(o.dropout, o.key, o.first);
  c.q = operand(0), c.k = operand(1), c.v = operand(2);
  c.batch = s.batch;
  c.heads = static_cast<int>(s.heads), c.n = static_cast<int>(s.n), c.m = static_cast<int>(s.m);
  c.d = static_cast<int>(s.d);
  c.scale = static_cast<float>(s.scale());
  return c;
}

}  // namespace

void GroupAttention::cuda(In in, Out out, CudaStream& stream) const {
  const Tensor table = image_table(options.groups);
  const Call c = call_of(options, table, in);
  launch(forward, cuda::blocks_for(c.batch * c.heads * c.n, kWarps), kThreads, 0, stream, c,
         token_heads<float>(out[0], options.heads), out[1].data<float>());
}

void GroupAttentionBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Tensor table = image_table(options.groups);
  const Call c = call_of(options, table, in.subspan(3));
  const Tensor deltas = Tensor::empty(in[2].shape(), DType::f32, Device::cuda);
  const auto output = [&](int which) {
    return group_operand<float>(options.heads, options.apart, out, which);
  };
  const Gradient to{token_heads<float>(in[0], options.heads),
                    token_heads<float>(in[1], options.heads), in[2].data<float>(),
                    deltas.data<float>()};
  launch(by_query, cuda::blocks_for(c.batch * c.heads * c.n, kWarps), kThreads, 0, stream, c, to,
         output(0));
  launch(by_key, cuda::blocks_for(c.batch * c.heads * c.m, kWarps), kThreads, 0, stream, c, to,
         output(1), output(2));
}

}  // namespace hg::ops
