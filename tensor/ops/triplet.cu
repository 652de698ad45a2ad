// A warp chooses the rows of an anchor; of equals the first one wins, as on the CPU.
#include "tensor/cuda/philox.h"
#include "tensor/ops/label_pairs.cuh"
#include "tensor/ops/triplet.h"

namespace hg::ops {
namespace {

using Negatives = TripletOptions::Negatives;

constexpr int kThreads = 128, kWarps = kThreads / cuda::kWarp;
constexpr float kLeastSquare = 1e-12f;

__device__ float distance(float s) { return sqrtf(fmaxf(2 - 2 * s, kLeastSquare)); }
// d distance / ds
__device__ float slope(float s, float distance) {
  return 2 - 2 * s > kLeastSquare ? -1 / distance : 0;
}

struct Anchor : cuda::Anchor {
  const float* s;  // its row of similarities
  int rows;
};

struct Found {
  float value = 0;
  int row = -1;  // none
  __device__ void take(float v, int j) {
    if (j >= 0 && (row < 0 || v > value || (v == value && j < row))) value = v, row = j;
  }
};

__device__ Found over_warp(Found found) {
  for (int lanes = cuda::kWarp / 2; lanes > 0; lanes /= 2) {
    const float value = __shfl_xor_sync(cuda::kAllLanes, found.value, lanes);
    found.take(value, __shfl_xor_sync(cuda::kAllLanes, found.row, lanes));
  }
  return found;
}

__device__ Found farthest_positive(const Anchor& a) {
  Found found;
  for (int j = threadIdx.x % cuda::kWarp; j < a.rows; j += cuda::kWarp)
    if (a.is_positive(j)) found.take(-a.s[j], j);
  return over_warp(found);
}

// Of those less alike than `positive`, if it is semi_hard and there are such; else of all.
__device__ Found nearest_negative(const Anchor& a, bool semi_hard, float positive) {
  Found nearest, beyond;
  for (int j = threadIdx.x % cuda::kWarp; j < a.rows; j += cuda::kWarp) {
    if (!a.is_negative(j)) continue;
    nearest.take(a.s[j], j);
    if (semi_hard && a.s[j] < positive) beyond.take(a.s[j], j);
  }
  nearest = over_warp(nearest), beyond = over_warp(beyond);
  return beyond.row < 0 ? nearest : beyond;
}

__device__ int count_negatives(const Anchor& a) {
  float count = 0;
  for (int j = threadIdx.x % cuda::kWarp; j < a.rows; j += cuda::kWarp)
    if (a.is_negative(j)) count += 1;
  return static_cast<int>(cuda::over_warp(count, cuda::Plus{}));
}

// The negative that `draw` names, in order of rows.
__device__ Found random_negative(const Anchor& a, unsigned draw) {
  const int lane = threadIdx.x % cuda::kWarp;
  auto skip = static_cast<int>(__umulhi(draw, static_cast<unsigned>(count_negatives(a))));
  Found found;
  for (int first = 0; first < a.rows; first += cuda::kWarp) {
    const int j = first + lane;
    const bool negative = j < a.rows && a.is_negative(j);
    const unsigned all = __ballot_sync(cuda::kAllLanes, negative);
    if (negative && __popc(all & ((1u << lane) - 1)) == skip) found.take(0, j);
    skip -= __popc(all);
  }
  return over_warp(found);
}

struct Choice {
  Negatives negatives;
  float margin;
  std::uint64_t key, first;
};

__global__ void __launch_bounds__(kThreads)
    choose_rows(const float* s, const std::int64_t* label, std::int64_t* chosen, float* losses,
                int rows, Choice choice) {
  const int i = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / cuda::kWarp;
  if (i >= rows) return;
  const Anchor anchor{{label, i}, s + std::int64_t{i} * rows, rows};
  const Found p = farthest_positive(anchor);
  const float positive = p.row < 0 ? 0 : anchor.s[p.row];
  const std::uint64_t draw = choice.first + static_cast<std::uint64_t>(i);
  const Found n =
      choice.negatives == Negatives::random
          ? random_negative(anchor, cuda::draw_at(choice.key, draw))
          : nearest_negative(anchor, choice.negatives == Negatives::semi_hard, positive);
  if (threadIdx.x % cuda::kWarp != 0) return;
  const bool used = p.row >= 0 && n.row >= 0;
  chosen[2 * i] = used ? p.row : i;
  chosen[2 * i + 1] = used ? n.row : i;
  const float excess = used ? choice.margin + distance(positive) - distance(anchor.s[n.row]) : 0.0f;
  losses[i] = excess < 0 ? 0 : excess;
}

struct HasChosen {
  const std::int64_t* chosen;
  __device__ bool operator()(int j) const { return chosen[2 * j] != j; }
};

// dy / anchors
struct Weight {
  const float* dy;
  const std::int64_t* chosen;
  float* weight;
  __device__ void operator()(const auto& row, std::int64_t) const {
    const float anchors = cuda::row_sum(row, HasChosen{chosen});
    if (row.leads()) *weight = *dy / anchors;
  }
};

// where margin + d_p - d_n > 0: ds_p = weight d'_p, ds_n = -weight d'_n. A chosen row out of range
// makes the anchor's gradient NaN: to throw, the host would have to wait.
struct Backward {
  const float *weight, *s;
  const std::int64_t* chosen;
  float* ds;
  float margin;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const std::int64_t p = chosen[2 * index], n = chosen[2 * index + 1];
    const bool valid = p >= 0 && p < row.n && n >= 0 && n < row.n;
    float of_positive = valid ? 0 : NAN, of_negative = of_positive;
    if (valid && p != index) {
      const float near = distance(s[row.at(static_cast<int>(n))]);
      const float far = distance(s[row.at(static_cast<int>(p))]);
      if (!(margin + far - near <= 0)) {
        of_positive = *weight * slope(s[row.at(static_cast<int>(p))], far);
        of_negative = *weight * slope(s[row.at(static_cast<int>(n))], near);
      }
    }
    for (int j = row.begin(); j < row.n; j += row.step()) {
      float grad = valid ? 0 : NAN;
      if (j == p) grad += of_positive;
      if (j == n) grad -= of_negative;
      ds[row.at(j)] = grad;
    }
  }
};

}  // namespace

void Triplet::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t rows = in[1].dim(0);
  const Tensor losses = Tensor::empty({rows}, DType::f32, Device::cuda);
  std::int64_t* const chosen = out[1].data<std::int64_t>();
  launch(choose_rows, cuda::blocks_for(rows, kWarps), kThreads, 0, stream, in[0].data<float>(),
         in[1].data<std::int64_t>(), chosen, losses.data<float>(), static_cast<int>(rows),
         Choice{options.negatives, static_cast<float>(options.margin), key, first});
  const cuda::MeanOfAnchors<HasChosen> mean{losses.data<float>(), {chosen}, out[0].data<float>()};
  cuda::along_rows(1, rows, mean, stream);
}

void TripletBackward::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t rows = in[2].dim(0);
  const std::int64_t* const chosen = in[2].data<std::int64_t>();
  const Tensor weight = Tensor::empty({1}, DType::f32, Device::cuda);
  cuda::along_axis(AxisView{1, rows, 1}, Weight{in[0].data<float>(), chosen, weight.data<float>()},
                   stream);
  const Backward body{weight.data<float>(), in[1].data<float>(), chosen, out[0].data<float>(),
                      static_cast<float>(margin)};
  cuda::along_axis(AxisView{rows, rows, 1}, body, stream);
}

}  // namespace hg::ops
