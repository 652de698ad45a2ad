#include "tensor/cuda/add_floats.h"

#include <algorithm>

#include "tensor/cuda/launch.h"

namespace hg::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kMostParts = 64;  // of a launch

struct Parts {
  const float* from[kMostParts];
  std::int64_t begin[kMostParts + 1];
};

// blockIdx.y: the part.
__global__ void __launch_bounds__(kThreads) pack_parts(Parts parts, float* to) {
  const float* const from = parts.from[blockIdx.y];
  const std::int64_t begin = parts.begin[blockIdx.y], n = parts.begin[blockIdx.y + 1] - begin;
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) to[begin + i] = from ? from[i] : -0.0f;
}

__global__ void __launch_bounds__(kThreads)
    add_pairs(const float* left, const float* right, float* sum, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) sum[i] = left[i] + right[i];
}

}  // namespace

void pack_floats(std::span<const FloatPart> parts, float* to, CudaStream& stream) {
  for (std::size_t first = 0; first < parts.size(); first += kMostParts) {
    const auto some = parts.subspan(first, std::min(kMostParts, parts.size() - first));
    Parts batch{};
    std::int64_t longest = 0;
    for (std::size_t k = 0; k < some.size(); ++k) {
      batch.from[k] = some[k].from;
      batch.begin[k + 1] = batch.begin[k] + some[k].n;
      longest = std::max(longest, some[k].n);
    }
    launch(pack_parts, dim3(blocks_for(longest, kThreads), static_cast<unsigned>(some.size())),
           kThreads, 0, stream, batch, to);
    to += batch.begin[some.size()];
  }
}

void add_floats(const float* left, const float* right, float* sum, std::int64_t n,
                CudaStream& stream) {
  launch(add_pairs, blocks_for(n, kThreads), kThreads, 0, stream, left, right, sum, n);
}

}  // namespace hg::cuda
