// A warp takes a patch. Sums and counts are of integers where they can be: the same in any order.
#include "tensor/cuda/reduce.h"
#include "tensor/ops/patch_scores.h"

namespace hg::ops {
namespace {

using Heuristic = PatchScoreOptions::Heuristic;
using Form = PatchScoreOptions::Form;
using Byte = std::uint8_t;

constexpr int kThreads = 128, kWarps = kThreads / cuda::kWarp;
constexpr int kValues = 256, kPerLane = kValues / cuda::kWarp;

__device__ int lane() { return static_cast<int>(threadIdx.x) % cuda::kWarp; }

struct Patch {
  const Byte* pixels;  // its first
  std::int64_t plane, width;
  int channels, side;
  __device__ int area() const { return side * side; }
  __device__ const Byte* at(int pixel) const {
    return pixels + pixel / side * width + pixel % side;
  }
  // f(value) for the lane's share of a channel
  __device__ void each(int channel, auto f) const {
    for (int k = lane(); k < area(); k += cuda::kWarp) f(at(k)[channel * plane]);
  }
  __device__ unsigned luminance(int pixel) const {
    const Byte* const p = at(pixel);
    if (channels == 1) return p[0];
    return (299u * p[0] + 587u * p[plane] + 114u * p[2 * plane] + 500u) / 1000u;
  }
};

// sum (x - mean)^2 / (n - 1) = (n sum x^2 - (sum x)^2) / (n (n - 1)): exact in integers.
struct Variance {
  __device__ float operator()(const Patch& patch) const {
    const auto n = static_cast<unsigned long long>(patch.area());
    const double scale = 1 / (static_cast<double>(n) * static_cast<double>(n - 1) * patch.channels);
    float score = 0;
    for (int c = 0; c < patch.channels; ++c) {
      unsigned long long sum = 0, squares = 0;
      patch.each(c, [&](unsigned v) { sum += v, squares += v * v; });
      sum = cuda::over_warp(sum, cuda::Plus{});
      squares = cuda::over_warp(squares, cuda::Plus{});
      score += static_cast<float>(static_cast<double>(n * squares - sum * sum) * scale);
    }
    return score;
  }
};

// Paper and ref: (max - min + 1e-8) / (max + min); a positive scale keeps a channel's extremes.
struct Extremes {
  bool ref;
  float scale[3], bias[3];
  __device__ float operator()(const Patch& patch) const {
    float most = -INFINITY, least = INFINITY;
    for (int c = 0; c < patch.channels; ++c) {
      int high = 0, low = kValues - 1;
      patch.each(c, [&](int v) { high = v > high ? v : high, low = v < low ? v : low; });
      high = cuda::over_warp(high, cuda::Greater{}), low = cuda::over_warp(low, cuda::Lesser{});
      most = fmaxf(most, scale[c] * static_cast<float>(high) + bias[c]);
      least = fminf(least, scale[c] * static_cast<float>(low) + bias[c]);
    }
    return !ref && most == 0 ? 0 : (most - least + 1e-8f) / (most + least);
  }
};

// Ref: mean of -x ln x of x = value / 255
struct MeanTerm {
  __device__ float operator()(const Patch& patch) const {
    float sum = 0;
    for (int c = 0; c < patch.channels; ++c)
      patch.each(c, [&](int v) {
        const float x = static_cast<float>(v) / 255;
        if (v > 0) sum -= x * logf(x);
      });
    return cuda::over_warp(sum, cuda::Plus{}) / static_cast<float>(patch.area() * patch.channels);
  }
};

// Counts of each luminance >> shift, for the warp.
__device__ const unsigned* count_values(const Patch& patch, int shift) {
  HG_SHARED(unsigned, tables, [kWarps][kValues]);
  unsigned* const counts = tables[threadIdx.x / cuda::kWarp];
  for (int v = lane(); v < kValues; v += cuda::kWarp) counts[v] = 0;
  __syncwarp();
  for (int k = lane(); k < patch.area(); k += cuda::kWarp)
    atomicAdd(&counts[patch.luminance(k) >> shift], 1u);
  __syncwarp();
  return counts;
}

// The least value that `rank` values reach. A lane looks at values next to each other.
__device__ int value_of_rank(const unsigned* counts, unsigned rank) {
  int value = lane() * kPerLane;
  unsigned own = 0;
  for (int k = 0; k < kPerLane; ++k) own += counts[value + k];
  unsigned reached = own;
  for (int lanes = 1; lanes < cuda::kWarp; lanes *= 2) {
    const unsigned below = __shfl_up_sync(cuda::kAllLanes, reached, lanes);
    if (lane() >= lanes) reached += below;
  }
  const unsigned before = reached - own;
  int found = 0;
  if (before < rank && rank <= reached) {
    for (unsigned seen = before + counts[value]; seen < rank; seen += counts[value]) ++value;
    found = value;
  }
  return cuda::over_warp(found, cuda::Plus{});  // of all lanes, one has found it
}

// Nearest rank: P_q is the value of rank ceil(q n / 100).
struct RobustContrast {
  __device__ float operator()(const Patch& patch) const {
    const unsigned* const counts = count_values(patch, 0);
    const auto n = static_cast<unsigned long long>(patch.area());
    const int low = value_of_rank(counts, static_cast<unsigned>((5 * n + 99) / 100));
    const int high = value_of_rank(counts, static_cast<unsigned>((95 * n + 99) / 100));
    return static_cast<float>(high - low) / static_cast<float>(high + low + 16);
  }
};

// -sum p log2 p; summed in f64, so that patches of the same counts score the same.
struct Entropy {
  int shift;
  __device__ float operator()(const Patch& patch) const {
    const unsigned* const counts = count_values(patch, shift);
    double sum = 0;
    for (int v = lane(); v < kValues; v += cuda::kWarp) {
      const float share = static_cast<float>(counts[v]) / static_cast<float>(patch.area());
      if (counts[v] > 0) sum -= share * log2f(share);
    }
    return static_cast<float>(cuda::over_warp(sum, cuda::Plus{}));
  }
};

// images [B,C,H,W]
struct Images {
  const Byte* pixels;
  std::int64_t height, width;
  int channels, side;
  __device__ Patch patch(std::int64_t i) const {
    const std::int64_t across = width / side, per_image = height / side * across;
    const std::int64_t plane = height * width, place = i % per_image;
    const Byte* const first = pixels + i / per_image * channels * plane +
                              place / across * side * width + place % across * side;
    return {first, plane, width, channels, side};
  }
};

template <class Score>
__global__ void __launch_bounds__(kThreads)
    score_patches(Images images, float* scores, std::int64_t patches, Score score) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  if (i >= patches) return;
  const float value = score(images.patch(i));
  if (lane() == 0) scores[i] = value;
}

Extremes extremes_of(const PatchScoreOptions& o) {
  Extremes score{o.form == Form::ref, {1, 1, 1}, {}};
  for (std::size_t c = 0; score.ref && c < 3; ++c)
    score.scale[c] = o.scale[c], score.bias[c] = o.bias[c];
  return score;
}

}  // namespace

void PatchScores::cuda(In in, Out out, CudaStream& stream) const {
  const Shape& s = in[0].shape();
  constexpr std::int64_t kMostSide = 1 << 15;
  require(options.patch < kMostSide, name(), "patch side {}, less than {} on CUDA", options.patch,
          kMostSide);
  const Images images{in[0].data<Byte>(), s[2], s[3], static_cast<int>(s[1]),
                      static_cast<int>(options.patch)};
  const auto score_by = [&]<class Score>(const Score& score) {
    launch(score_patches<Score>, cuda::blocks_for(out[0].numel(), kWarps), kThreads, 0, stream,
           images, out[0].data<float>(), out[0].numel(), score);
  };
  const bool robust = options.form == Form::robust, ref = options.form == Form::ref;
  switch (options.heuristic) {
    case Heuristic::variance:
      return score_by(Variance{});
    case Heuristic::contrast:
      return robust ? score_by(RobustContrast{}) : score_by(extremes_of(options));
    case Heuristic::entropy:
      return ref ? score_by(MeanTerm{}) : score_by(Entropy{options.bins == 32 ? 3 : 0});
    case Heuristic::random:  // refused by infer()
      return;
  }
}

}  // namespace hg::ops
