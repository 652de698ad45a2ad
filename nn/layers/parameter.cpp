#include "nn/layers/parameter.h"

#include "tensor/random.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

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
  }
}

}  // namespace

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
