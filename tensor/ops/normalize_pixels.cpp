#include "tensor/ops/normalize_pixels.h"

#include <algorithm>

#include "tensor/cpu/elementwise.h"

namespace hg::ops {

TensorSpecs NormalizePixels::infer(In in) const {
  expect_inputs(*this, in, 2);
  expect_rank(*this, in, 0, 4);
  expect_dtype(*this, in, 0, DType::u8);
  expect_shape(*this, in, 1, {2, in[0].dim(1)});
  return {in[1].spec(in[0].shape())};
}

// per element: multiply, add
CostParts NormalizePixels::cost(In in, In out) const {
  if (count(in[0]) == 0) return Cost{};
  return elementwise_cost(in, out, 2 * count(in[0]));
}

void NormalizePixels::cpu(In in, Out out) const {
  const std::int64_t channels = in[0].dim(1), plane = in[0].dim(2) * in[0].dim(3);
  const std::uint8_t* const pixels = in[0].data<std::uint8_t>();
  dispatch_float(in[1].dtype(), name(), [&]<class T>() {
    const T* const norm = in[1].data<T>();
    T* const y = out[0].data<T>();
    const auto planes = [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const T scale = norm[i % channels], bias = norm[channels + i % channels];
        std::transform(pixels + i * plane, pixels + (i + 1) * plane, y + i * plane,
                       [=](std::uint8_t x) { return scale * static_cast<T>(x) + bias; });
      }
    };
    cpu::parallel_for(in[0].dim(0) * channels, cpu::row_grain(plane), planes);
  });
}

Samples NormalizePixels::samples() {
  const auto of = [](const Shape& images) {
    return sample(NormalizePixels(), {S::pixels(images, 256), S::uniform({2, images[1]})});
  };
  return {of({1, 3, 1, 197}), of({2, 3, 8, 12}), of({5, 1, 7, 3}), of({0, 3, 4, 4})};
}

}  // namespace hg::ops
