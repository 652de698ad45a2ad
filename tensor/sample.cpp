#include "tensor/sample.h"

#include <cmath>
#include <utility>

#include "tensor/random.h"

namespace hg {
namespace {

Tensor stored(const SampleInput& input, DType dtype, RandomStream& stream) {
  Shape shape = input.shape;
  if (input.transposed) std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  if (input.kind != SampleInput::Kind::uniform) {
    Tensor t = Tensor::empty(shape, DType::i64);
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.data<std::int64_t>()[i] =
          static_cast<std::int64_t>(std::floor(stream.uniform() * input.high));
    return input.kind == SampleInput::Kind::pixels ? t.to(DType::u8) : t;
  }
  Tensor t = Tensor::empty(shape, dtype);
  dispatch_float(dtype, "sample", [&]<class T>() {
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = static_cast<float>(input.low + (input.high - input.low) * stream.uniform());
  });
  return t;
}

Tensor swap_last_axes(const Tensor& t) {
  TensorSpec spec = t.spec();
  spec.strides = t.strides();
  const int r = t.rank();
  std::swap(spec.shape[r - 1], spec.shape[r - 2]);
  std::swap(spec.strides[r - 1], spec.strides[r - 2]);
  return t.view(spec);
}

}  // namespace

Tensors make_inputs(const Sample& sample, DType dtype) {
  Tensors inputs;
  RandomStream stream(1, "sample");
  for (const SampleInput& input : sample.inputs) {
    Tensor t = stored(input, dtype, stream);
    inputs.push_back(input.transposed ? swap_last_axes(t) : t);
  }
  return inputs;
}

}  // namespace hg
