// The operands of one call of quadratic attention on the device, and what a pair of tokens weighs:
// the same functions for its forward and backward kernels. quadratic_call.h is its twin.
#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/cuda/philox.h"
#include "tensor/ops/attention/head_tiles.cuh"
#include "tensor/ops/attention/quadratic_operands.h"

namespace hg::cuda {

using QuadraticMap = QuadraticOptions::Map;
using QuadraticSpread = QuadraticOptions::Spread;

struct DevicePrior : PriorTable<float> {
  using PriorTable<float>::PriorTable;
  // An id out of range makes the weight NaN: to throw, the host would have to wait.
  __device__ float weight(int image, int h, int i, int j, int r) const {
    const std::int64_t of_query = query == 0 ? 0 : query_position(image, i);
    const std::int64_t of_key = key == 0 ? 0 : position(image, j);
    if (of_query < 0 || of_key < 0 || of_query >= positions || of_key >= positions) return NAN;
    const float p = data[h * head + of_query * query + of_key * key + r * component];
    return clipped ? fminf(fabsf(p), 1.0f) : p;
  }
  // d weight / d table, for a sum over all that depends on this element
  __device__ float slope(std::int64_t at) const {
    if (!clipped) return 1;
    const float p = data[at];
    return fabsf(p) < 1 ? static_cast<float>((p > 0) - (p < 0)) : 0.0f;
  }
};

struct QuadraticCall {
  HeadRows q, v, k[QuadraticOptions::kMostComponents];
  int heads, n, m, d, components;  // n queries, m keys
  QuadraticMap map;
  QuadraticSpread spread;
  bool causal, likelihood, rbf;
  float scale[QuadraticOptions::kMostComponents];  // logit = scale (q.k + bias - norm)
  const float *bias, *norm;  // [B,H,R,M] and [B,H,N], or null; norm = |q|^2 / 2
  DevicePrior prior;
  DropDraws drop;

  __device__ bool sees(int i, int j) const { return i < n && j < m && (!causal || j <= i); }
  __device__ std::int64_t row(int index, int i) const {
    return static_cast<std::int64_t>(index) * n + i;
  }
  __device__ float logit(int r, float product, int index, int i, int j) const {
    if (bias) product += bias[(static_cast<std::int64_t>(index) * components + r) * m + j];
    if (norm) product -= norm[row(index, i)];
    return product * scale[r];
  }
  __device__ float prior_of(int index, int i, int j, int r) const {
    return prior.data ? prior.weight(index / heads, index % heads, i, j, r) : 1.0f;
  }
  __device__ float kept(int index, int i, int j) const { return drop.kept(row(index, i) * m + j); }
};

// The weight of one pair: starts empty, takes in the logits of its components and is finished.
// `statistic` is the row's logarithm of all weights, priors and all, or its threshold.
__device__ inline float empty_pair(QuadraticMap map) {
  return map == QuadraticMap::softmax ? 0 : -INFINITY;
}
__device__ inline float add_logit(QuadraticMap map, float pair, float logit, float prior,
                                  float statistic) {
  if (map != QuadraticMap::softmax) return Greater{}(pair, logit);
  return pair + (prior == 0 ? 0 : prior * expf(logit - statistic));
}
// The root of an entmax weight, its derivative; else the weight itself.
__device__ inline float weight_root(QuadraticMap map, float pair, float statistic) {
  if (map == QuadraticMap::softmax) return pair;
  if (map == QuadraticMap::best) return expf(pair - statistic);
  const float above = (map == QuadraticMap::entmax15 ? 0.5f * pair : pair) - statistic;
  return above < 0 ? 0 : above;  // NaN stays
}
__device__ inline float weight_of(QuadraticMap map, float pair, float statistic) {
  const float u = weight_root(map, pair, statistic);
  return map == QuadraticMap::entmax15 ? u * u : u;
}

// The largest prior of a row, in every lane; 0: the row is empty.
__device__ inline float largest_prior(const QuadraticCall& c, int index, int i) {
  float largest = 0;
  for (int r = 0; r < c.components; ++r)
    for (int j = static_cast<int>(threadIdx.x) % kWarp; j < c.m; j += kWarp)
      largest = Greater{}(largest, c.prior_of(index, i, j, r));
  return over_warp(largest, Greater{});
}

// to[index * stride + row] = lift + factor |x|^2; a warp per row.
static __global__ void __launch_bounds__(kTileThreads)
    square_norms(HeadRows x, std::int64_t rows, int per_head, int heads, int d, float factor,
                 float lift, float* to, std::int64_t stride) {
  const std::int64_t at = std::int64_t{blockIdx.x} * (kTileThreads / kWarp) + threadIdx.x / kWarp;
  if (at >= rows) return;
  const int index = static_cast<int>(at / per_head);
  const std::int64_t row = at % per_head;
  const float* const from = x.of(index, heads) + row * x.row;
  const float sum = warp_dot(from, from, d);
  if (threadIdx.x % kWarp == 0) to[index * stride + row] = lift + factor * sum;
}

// A call with what it needs beside its inputs: norms of keys and queries.
class QuadraticDevice {
 public:
  QuadraticDevice(const QuadraticOptions& o, In in, CudaStream& stream)
      : images_(in[0].dim(0)), call_(call_of(o, in)) {
    const QuadraticCall& c = call_;
    const bool rbf = o.score == QuadraticOptions::Score::rbf;
    if (rbf || o.norm_const) {
      bias_ = Tensor::empty({images_, c.heads, c.components, c.m}, DType::f32, Device::cuda);
      call_.bias = bias_.data<float>();
      for (int r = 0; r < c.components; ++r) {
        const double variance = o.variance_of(r, c.d);
        const double lift = o.norm_const ? -0.5 * c.d * std::log(variance) * variance : 0;
        norms(c.k[r], c.m, rbf ? -0.5f : 0.0f, static_cast<float>(lift),
              bias_.data<float>() + std::int64_t{r} * c.m, std::int64_t{c.components} * c.m,
              stream);
      }
    }
    if (o.keeps_query_norm(c.d)) {
      norm_ = Tensor::empty({images_, c.heads, c.n}, DType::f32, Device::cuda);
      call_.norm = norm_.data<float>();
      norms(c.q, c.n, 0.5f, 0, norm_.data<float>(), c.n, stream);
    }
  }
  const QuadraticCall& call() const { return call_; }
  void set_values(const HeadRows& v) { call_.v = v; }
  std::int64_t heads() const { return images_ * call_.heads; }  // of all images

 private:
  static QuadraticCall call_of(const QuadraticOptions& o, In in) {
    QuadraticCall c{};
    const QuadraticSizes s(o, in);
    check_sizes("quadratic attention", s.n, s.m, s.d);
    c.heads = static_cast<int>(o.heads), c.n = static_cast<int>(s.n), c.m = static_cast<int>(s.m);
    c.d = static_cast<int>(s.d), c.components = o.components();
    c.q = base_operand<float>(o, in, 0), c.v = base_operand<float>(o, in, 2);
    for (int r = 0; r < c.components; ++r) {
      c.k[r] = key_operand<float>(o, in, r);
      c.scale[r] = static_cast<float>(1 / o.variance_of(r, s.d));
    }
    c.map = o.map, c.spread = o.spread, c.causal = o.causal, c.likelihood = o.likelihood;
    c.rbf = o.score == QuadraticOptions::Score::rbf;
    c.prior = DevicePrior(o, in);
    c.drop = DropDraws(o.dropout, o.key, o.first);
    return c;
  }
  void norms(const HeadRows& x, int per_head, float factor, float lift, float* to,
             std::int64_t stride, CudaStream& stream) const {
    const std::int64_t rows = heads() * per_head;
    launch(square_norms, blocks_for(rows, kTileWarps), kTileThreads, 0, stream, x, rows, per_head,
           call_.heads, call_.d, factor, lift, to, stride);
  }

  std::int64_t images_;
  QuadraticCall call_;
  Tensor bias_, norm_;
};

}  // namespace hg::cuda
