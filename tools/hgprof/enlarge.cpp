#include "tools/hgprof/enlarge.h"

#include <algorithm>
#include <optional>

#include "tensor/op.h"

namespace hg::prof {
namespace {

// Bytes of inputs and outputs; nothing if the op refuses them.
std::optional<std::uint64_t> bytes_of_sample(const Sample& sample) {
  try {
    const Tensors in = make_inputs(sample, DType::f32);
    std::uint64_t bytes = bytes_of(in);
    for (const TensorSpec& spec : sample.op->infer(in))
      bytes += static_cast<std::uint64_t>(spec.shape.numel()) * size_of(spec.dtype);
    return bytes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Sample doubled(Sample sample, std::int64_t size) {
  for (SampleInput& input : sample.inputs) {
    std::vector<std::int64_t> sizes(input.shape.begin(), input.shape.end());
    for (std::int64_t& s : sizes)
      if (s == size) s *= 2;
    input.shape = Shape(sizes);
  }
  return sample;
}

// In order of appearance, so that batches grow first.
std::vector<std::int64_t> sizes_of(const Sample& sample) {
  std::vector<std::int64_t> sizes;
  for (const SampleInput& input : sample.inputs)
    for (const std::int64_t s : input.shape)
      if (s > 0 && std::find(sizes.begin(), sizes.end(), s) == sizes.end()) sizes.push_back(s);
  return sizes;
}

bool has_views(const Sample& sample) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(),
                     [](const SampleInput& i) { return i.transposed; });
}

}  // namespace

Sample enlarged(const Samples& samples, std::uint64_t bytes) {
  require(!samples.empty(), "samples", "an op has none");
  const auto largest =
      std::max_element(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
        return bytes_of_sample(a).value_or(0) < bytes_of_sample(b).value_or(0);
      });
  Sample best = *largest;
  for (bool grown = !has_views(best); grown;) {
    grown = false;
    for (const std::int64_t size : sizes_of(best)) {  // each in turn, so that all axes grow
      const Sample next = doubled(best, size);
      const auto before = bytes_of_sample(best), after = bytes_of_sample(next);
      if (!after || *after <= *before || *after > bytes) continue;
      best = next;
      grown = true;
    }
  }
  return best;
}

}  // namespace hg::prof
