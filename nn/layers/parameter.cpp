#include "nn/layers/parameter.h"

#include <cmath>

#include "tensor/random.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

// A quarter of the features each: sin and cos of w y, then of w x, with w from 1 down to almost
// 1 / kLongest. The class token, in front, has 0.
template <class T>
void fill_positions(const Tensor& t, double rms) {
  constexpr double kLongest = 10000;
  const std::int64_t width = t.dim(2), quarter = (width + 3) / 4;
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(t.dim(1) - 1)));
  require(t.dim(0) == 1 && side * side == t.dim(1) - 1, "init", "no positions of a grid in {}", t);
  const double amplitude = rms * std::sqrt(2.0);
  std::fill_n(t.data<T>(), width, T{0});
  for (std::int64_t patch = 0; patch < side * side; ++patch)
    for (std::int64_t e = 0; e < width; ++e) {
      const std::int64_t part = e / quarter, at = part < 2 ? patch / side : patch % side;
      const double share = static_cast<double>(e % quarter) / static_cast<double>(quarter);
      const double angle = static_cast<double>(at) * std::pow(kLongest, -share);
      t.data<T>()[(patch + 1) * width + e] =
          static_cast<T>(amplitude * (part % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
}

void fill(const Tensor& t, const Init& init, RandomStream stream) {
  switch (init.kind) {
    case Init::Kind::constant:
      return dispatch_float(t.dtype(), "init", [&]<class T>() {
        std::fill_n(t.data<T>(), t.numel(), static_cast<T>(init.value));
      });
    case Init::Kind::normal:
      return fill_normal(t, stream, 0, init.value);
    case Init::Kind::uniform:
      return fill_uniform(t, stream, -init.value, init.value);
    case Init::Kind::positions:
      return dispatch_float(t.dtype(), "init",
                            [&]<class T>() { fill_positions<T>(t, init.value); });
  }
}

}  // namespace

Init weight_init(WeightStart start, std::int64_t inputs) {
  if (start == WeightStart::timm) return Init::normal(0.02);
  return Init::normal(0.7 / std::sqrt(static_cast<double>(inputs)));
}

Tensor Parameters::start(const std::string& name, const Shape& shape, const Init& init) const {
  if (hollow_) return Tensor::hollow_of({dtype_, shape});
  const Tensor value = Tensor::empty(shape, dtype_);
  fill(value, init, RandomStream(seed_, "init." + name));
  return to_device(value, device_);
}

Tensor Parameters::make(const std::string& name, const Shape& shape, const Init& init, bool decay) {
  require(find(name) == nullptr, "parameters", "{} is made twice", name);
  all_.push_back({name, start(name, shape, init), decay && shape.rank() > 1});
  return all_.back().value;
}

Tensor Parameters::make_buffer(const std::string& name, const Shape& shape, const Init& init,
                               bool optional) {
  buffers_.push_back({name, start(name, shape, init), optional});
  return buffers_.back().value;
}

const Parameter* Parameters::find(std::string_view name) const {
  for (const Parameter& p : all_)
    if (p.name == name) return &p;
  return nullptr;
}

std::int64_t Parameters::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : all_) n += p.value.numel();
  return n;
}

}  // namespace hg::nn
