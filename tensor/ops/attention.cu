// Softmax attention by tiles in shared memory; the scores never reach global memory. A block takes
// a few rows of one (image, head) against tiles of 32 others, one per lane. Gradients are summed by
// the block that owns their row, in order: the same bits every time, without atomics.
#include <algorithm>
#include <cmath>

#include "tensor/cuda/reduce.h"
#include "tensor/ops/attention.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / cuda::kWarp;
constexpr int kTile = cuda::kWarp;  // rows of the other side, one per lane
constexpr int kForwardRows = 16, kBackwardRows = 8;
constexpr int kMostChannels = 128;
constexpr int kBlocksPerUnit = 4;  // shared memory holds no more; left to itself ptxas spills for 7

// Where the rows of q, k, v or an output lie.
struct Operand {
  float* data;
  std::int64_t image, head, token;  // strides
};

struct Sizes {
  int heads, n, m, d;  // n queries and m keys of d channels
  float scale;
};

__device__ float* head_of(const Operand& x, int index, int heads) {
  return x.data + index / heads * x.image + index % heads * x.head;
}

// Rows in shared memory lie an odd number of floats apart, so that lanes reading a channel each of
// their own row meet different banks.
__host__ __device__ constexpr int padded(int d) { return d | 1; }

// rows [first, first + count) of one head into shared memory, zeros beyond its end.
__device__ void load_rows(const float* from, std::int64_t stride, int first, int count, int end,
                          int d, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count * d; i += kThreads) {
    const int row = i / d, c = i % d;
    to[row * padded(d) + c] = first + row < end ? from[(first + row) * stride + c] : 0;
  }
}

__device__ float dot(const float* a, const float* b, int d) {
  float sum = 0;
  for (int c = 0; c < d; ++c) sum += a[c] * b[c];
  return sum;
}

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

// kChannels: of a row, per lane. Each warp has its own rows, the lanes share its keys and channels.
template <int kChannels>
__global__ void __launch_bounds__(kThreads)
    forward(Operand q, Operand k, Operand v, Operand o, float* lse, Sizes s) {
  constexpr int kOwn = kForwardRows / kWarps;
  HG_DYN_SHARED(float, shared);
  HG_SHARED(float, weights, [kForwardRows][kTile]);
  float *const queries = shared, *const keys = queries + kForwardRows * padded(s.d);
  float* const values = keys + kTile * padded(s.d);
  const int tiles = (s.n + kForwardRows - 1) / kForwardRows;
  const int index = static_cast<int>(blockIdx.x) / tiles;  // of (image, head)
  const int first = static_cast<int>(blockIdx.x) % tiles * kForwardRows;
  const int lane = threadIdx.x % cuda::kWarp, own = threadIdx.x / cuda::kWarp * kOwn;
  load_rows(head_of(q, index, s.heads), q.token, first, kForwardRows, s.n, s.d, queries);
  RowState rows[kOwn];
  float sums[kOwn][kChannels] = {};
  for (int tile = 0; tile < s.m; tile += kTile) {
    __syncthreads();  // the last tile's readers are done
    load_rows(head_of(k, index, s.heads), k.token, tile, kTile, s.m, s.d, keys);
    load_rows(head_of(v, index, s.heads), v.token, tile, kTile, s.m, s.d, values);
    __syncthreads();
    float keep[kOwn];
    for (int r = 0; r < kOwn; ++r) {
      const float* const query = queries + (own + r) * padded(s.d);
      const float score =
          tile + lane < s.m ? dot(query, keys + lane * padded(s.d), s.d) * s.scale : -INFINITY;
      weights[own + r][lane] = take_scores(rows[r], score, keep[r]);
    }
    __syncwarp();
#pragma unroll
    for (int part = 0; part < kChannels; ++part) {
      const int c = part * cuda::kWarp + lane;
      if (c >= s.d) continue;
      for (int r = 0; r < kOwn; ++r) sums[r][part] *= keep[r];
      for (int j = 0; j < kTile; ++j) {
        const float value = values[j * padded(s.d) + c];
        for (int r = 0; r < kOwn; ++r) sums[r][part] += weights[own + r][j] * value;
      }
    }
    __syncwarp();  // before the weights are written again
  }
  for (int r = 0; r < kOwn; ++r) {
    const int row = first + own + r;
    if (row >= s.n) continue;
    float* const to = head_of(o, index, s.heads) + row * o.token;
#pragma unroll
    for (int part = 0; part < kChannels; ++part) {
      const int c = part * cuda::kWarp + lane;
      if (c < s.d) to[c] = sums[r][part] / rows[r].sum;
    }
    if (lane == 0)
      lse[static_cast<std::int64_t>(index) * s.n + row] = rows[r].largest + logf(rows[r].sum);
  }
}

// delta = sum over channels of do o, [B,H,N]; a warp each.
__global__ void __launch_bounds__(kThreads)
    row_deltas(Operand grad, Operand o, float* delta, std::int64_t rows, Sizes s) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  if (at >= rows) return;
  const int index = static_cast<int>(at / s.n), lane = threadIdx.x % cuda::kWarp;
  const float* const g = head_of(grad, index, s.heads) + at % s.n * grad.token;
  const float* const y = head_of(o, index, s.heads) + at % s.n * o.token;
  float sum = 0;
  for (int c = lane; c < s.d; c += cuda::kWarp) sum += g[c] * y[c];
  sum = cuda::over_warp(sum, cuda::Plus{});
  if (lane == 0) delta[at] = sum;
}

// One side of the backward pass: a block owns rows of (x, gx) and meets tiles of (y, gy). The score
// is x y, p's gradient gx gy; with ds = p (gx gy - delta) scale the sums are dx = ds y and dgx = p
// gy. Queries own (q, do) and keep dq; keys own (k, v) and keep dk and dv.
struct Side {
  Operand x, gx, y, gy, dx, dgx;
  int own, other;  // rows
};

template <bool kKeys, int kChannels>
__global__ void __launch_bounds__(kThreads, kBlocksPerUnit)
    backward(Side side, const float* lse, const float* delta, Sizes s) {
  constexpr int kOwn = kBackwardRows / kWarps;
  HG_DYN_SHARED(float, shared);
  HG_SHARED(float, p, [kBackwardRows][kTile]);
  HG_SHARED(float, ds, [kBackwardRows][kTile]);
  const int pitch = padded(s.d);
  float *const x = shared, *const gx = x + kBackwardRows * pitch;
  float *const y = gx + kBackwardRows * pitch, *const gy = y + kTile * pitch;
  const int tiles = (side.own + kBackwardRows - 1) / kBackwardRows;
  const int index = static_cast<int>(blockIdx.x) / tiles;
  const int first = static_cast<int>(blockIdx.x) % tiles * kBackwardRows;
  const int lane = threadIdx.x % cuda::kWarp, own = threadIdx.x / cuda::kWarp * kOwn;
  const std::int64_t queries = static_cast<std::int64_t>(index) * s.n;
  load_rows(head_of(side.x, index, s.heads), side.x.token, first, kBackwardRows, side.own, s.d, x);
  load_rows(head_of(side.gx, index, s.heads), side.gx.token, first, kBackwardRows, side.own, s.d,
            gx);
  float dx[kOwn][kChannels] = {}, dgx[kOwn][kChannels] = {};
  for (int tile = 0; tile < side.other; tile += kTile) {
    __syncthreads();
    load_rows(head_of(side.y, index, s.heads), side.y.token, tile, kTile, side.other, s.d, y);
    load_rows(head_of(side.gy, index, s.heads), side.gy.token, tile, kTile, side.other, s.d, gy);
    __syncthreads();
    for (int r = 0; r < kOwn; ++r) {
      const int row = first + own + r, query = kKeys ? tile + lane : row;
      float weight = 0, slope = 0;
      if (row < side.own && tile + lane < side.other) {
        const float score = dot(x + (own + r) * pitch, y + lane * pitch, s.d) * s.scale;
        const float g = dot(gx + (own + r) * pitch, gy + lane * pitch, s.d);
        weight = expf(score - lse[queries + query]);
        slope = weight * (g - delta[queries + query]) * s.scale;
      }
      p[own + r][lane] = weight;
      ds[own + r][lane] = slope;
    }
    __syncwarp();
#pragma unroll
    for (int part = 0; part < kChannels; ++part) {
      const int c = part * cuda::kWarp + lane;
      if (c >= s.d) continue;
      for (int j = 0; j < kTile; ++j) {
        const float a = y[j * pitch + c], b = gy[j * pitch + c];
        for (int r = 0; r < kOwn; ++r) {
          dx[r][part] += ds[own + r][j] * a;
          if (kKeys) dgx[r][part] += p[own + r][j] * b;
        }
      }
    }
    __syncwarp();
  }
  for (int r = 0; r < kOwn; ++r) {
    const int row = first + own + r;
    if (row >= side.own) continue;
#pragma unroll
    for (int part = 0; part < kChannels; ++part) {
      const int c = part * cuda::kWarp + lane;
      if (c >= s.d) continue;
      head_of(side.dx, index, s.heads)[row * side.dx.token + c] = dx[r][part];
      if (kKeys) head_of(side.dgx, index, s.heads)[row * side.dgx.token + c] = dgx[r][part];
    }
  }
}

// q, k or v in `tensor`: one of three parts of a packed [B, N, 3 H D], or [B, H, N, D] of its own.
Operand operand_of(const Tensor& tensor, int which, bool packed, const Sizes& s) {
  float* const data = tensor.data<float>();
  const std::int64_t width = static_cast<std::int64_t>(s.heads) * s.d;
  if (packed) return {data + which * width, tensor.dim(1) * 3 * width, s.d, 3 * width};
  return {data, tensor.dim(2) * width, tensor.dim(2) * s.d, s.d};
}

// [B, N, H D] or [B, H, N, D]
Operand output_of(const Tensor& tensor, bool packed, const Sizes& s) {
  const std::int64_t width = static_cast<std::int64_t>(s.heads) * s.d;
  if (packed) return {tensor.data<float>(), tensor.dim(1) * width, s.d, width};
  return {tensor.data<float>(), tensor.dim(2) * width, tensor.dim(2) * s.d, s.d};
}

Sizes sizes_of(In operands, std::int64_t heads) {
  const Tensor& q = operands[0];
  const bool packed = heads > 0;
  const std::int64_t d = packed ? q.dim(2) / (3 * heads) : q.dim(3);
  const std::int64_t n = packed ? q.dim(1) : q.dim(2), m = packed ? n : operands[1].dim(2);
  require(d <= kMostChannels, "attention", "{} channels a head, at most {} on CUDA", d,
          kMostChannels);
  require(n < (1 << 30) && m < (1 << 30), "attention", "{} tokens are too many", std::max(n, m));
  return {static_cast<int>(packed ? heads : q.dim(1)), static_cast<int>(n), static_cast<int>(m),
          static_cast<int>(d), static_cast<float>(1 / std::sqrt(static_cast<double>(d)))};
}

Operand operand_at(In operands, int which, bool packed, const Sizes& s) {
  return operand_of(operands[packed ? 0 : static_cast<std::size_t>(which)], which, packed, s);
}

unsigned blocks_of(std::int64_t images, int heads, int rows, int per_block) {
  return cuda::blocks_for(images * heads * ((rows + per_block - 1) / per_block), 1);
}

std::size_t shared_bytes(int rows, int d) {
  return static_cast<std::size_t>(rows) * padded(d) * sizeof(float);
}

// Calls f.operator()<channels per lane>().
template <class F>
void dispatch_channels(int d, F&& f) {
  if (d <= 32) return f.template operator()<1>();
  if (d <= 64) return f.template operator()<2>();
  f.template operator()<4>();
}

}  // namespace

void Attention::cuda(In in, Out out, CudaStream& stream) const {
  const Sizes s = sizes_of(in, heads);
  const bool packed = heads > 0;
  dispatch_channels(s.d, [&]<int kChannels>() {
    launch(forward<kChannels>, blocks_of(in[0].dim(0), s.heads, s.n, kForwardRows), kThreads,
           shared_bytes(kForwardRows + 2 * kTile, s.d), stream, operand_at(in, 0, packed, s),
           operand_at(in, 1, packed, s), operand_at(in, 2, packed, s), output_of(out[0], packed, s),
           out[1].data<float>(), s);
  });
}

void AttentionBackward::cuda(In in, Out out, CudaStream& stream) const {
  const In operands = in.subspan(3);
  const Sizes s = sizes_of(operands, heads);
  const bool packed = heads > 0;
  const std::int64_t images = operands[0].dim(0);
  const auto x = [&](int which) { return operand_at(operands, which, packed, s); };
  const auto dx = [&](int which) { return operand_at(out, which, packed, s); };
  const Operand grad = output_of(in[0], packed, s), o = output_of(in[1], packed, s);
  const float* const lse = in[2].data<float>();
  const Tensor deltas = Tensor::empty(in[2].shape(), DType::f32, Device::cuda);
  float* const delta = deltas.data<float>();
  launch(row_deltas, cuda::blocks_for(deltas.numel(), kWarps), kThreads, 0, stream, grad, o, delta,
         deltas.numel(), s);
  const std::size_t bytes = shared_bytes(2 * (kBackwardRows + kTile), s.d);
  const Side queries{x(0), grad, x(1), x(2), dx(0), {}, s.n, s.m};
  const Side keys{x(1), x(2), x(0), grad, dx(1), dx(2), s.m, s.n};
  dispatch_channels(s.d, [&]<int kChannels>() {
    launch(backward<false, kChannels>, blocks_of(images, s.heads, s.n, kBackwardRows), kThreads,
           bytes, stream, queries, lse, delta, s);
    launch(backward<true, kChannels>, blocks_of(images, s.heads, s.m, kBackwardRows), kThreads,
           bytes, stream, keys, lse, delta, s);
  });
}

}  // namespace hg::ops
