#include "tensor/tensor.h"

#include <algorithm>
#include <atomic>

#include "tensor/backend.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

// Ids are unique in the process; each thread takes them in batches, so that ops on several threads
// don't meet on one counter.
std::uint64_t next_id() {
  constexpr std::uint64_t kBatch = 1024;
  static std::atomic<std::uint64_t> next_batch{1};
  thread_local std::uint64_t next = 0, end = 0;
  if (next == end) {
    next = next_batch.fetch_add(kBatch, std::memory_order_relaxed);
    end = next + kBatch;
  }
  return next++;
}

// Calls f(offset) for each element's offset, in row-major order.
void for_each_offset(const Shape& shape, const Shape& strides, int axis, std::int64_t offset,
                     auto& f) {
  if (axis == shape.rank()) return f(offset);
  for (std::int64_t i = 0; i < shape[axis]; ++i)
    for_each_offset(shape, strides, axis + 1, offset + i * strides[axis], f);
}

}  // namespace

Tensor Tensor::hollow_of(const TensorSpec& spec) {
  check_extents(spec.shape, "tensor");
  Tensor t;
  t.shape_ = spec.shape;
  t.strides_ = spec.shape.contiguous_strides();
  t.dtype_ = spec.dtype;
  t.device_ = spec.device;
  t.id_ = next_id();
  return t;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor t = hollow_of({dtype, shape, device});
  t.storage_ = make_storage(device, t.bytes());
  return t;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  backend(device).fill_zero(t.raw(), t.bytes());
  return t;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  const Tensor t = empty(shape, dtype);
  dispatch_any(dtype,
               [&]<class T>() { std::fill_n(t.data<T>(), t.numel(), static_cast<T>(value)); });
  return to_device(t, device);
}

template <class T>
Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  Tensor t = empty(shape, dtype_of<T>());
  require(static_cast<std::size_t>(t.numel()) == values.size(), "tensor", "{} values for {}",
          values.size(), shape);
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}
template Tensor Tensor::of<float>(const Shape&, std::span<const float>);
template Tensor Tensor::of<double>(const Shape&, std::span<const double>);
template Tensor Tensor::of<std::int64_t>(const Shape&, std::span<const std::int64_t>);
template Tensor Tensor::of<std::uint8_t>(const Shape&, std::span<const std::uint8_t>);

bool Tensor::contiguous() const {
  std::int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != step) return numel() == 0;
    step *= shape_[i];
  }
  return true;
}

void* Tensor::raw(DType expected) const {
  require(storage_ != nullptr, "tensor", "{} has no contents", *this);
  require(expected == dtype_, "tensor", "{} read as {}", *this, expected);
  return static_cast<std::byte*>(storage_->data()) + offset_ * static_cast<int>(size_of(dtype_));
}

template <class T>
T Tensor::item() const {
  require(numel() == 1, "item", "expected one element, got {}", *this);
  require(device_ == Device::cpu, "item", "{} is on {}", *this, device_);
  return *data<T>();
}
template float Tensor::item<float>() const;
template double Tensor::item<double>() const;
template std::int64_t Tensor::item<std::int64_t>() const;
template std::uint8_t Tensor::item<std::uint8_t>() const;

template <class T>
std::vector<T> Tensor::to_vector() const {
  require(device_ == Device::cpu, "to_vector", "{} is on {}", *this, device_);
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(numel()));
  const T* p = data<T>();
  auto take = [&](std::int64_t offset) { values.push_back(p[offset]); };
  for_each_offset(shape_, strides_, 0, 0, take);
  return values;
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;

Tensor Tensor::clone() const {
  if (!contiguous())
    return dispatch_any(dtype_, [&]<class T>() { return of<T>(shape_, to_vector<T>()); });
  Tensor t = empty(shape_, dtype_, device_);
  backend(device_).copy(t.raw(), raw(), bytes());
  return t;
}

Tensor Tensor::to(DType dtype) const {
  Tensor t = empty(shape_, dtype);
  dispatch_any(dtype_, [&]<class From>() {
    const std::vector<From> values = to_vector<From>();
    dispatch_any(dtype, [&]<class To>() {
      std::transform(values.begin(), values.end(), t.data<To>(),
                     [](From v) { return static_cast<To>(v); });
    });
  });
  return t;
}

Tensor Tensor::detach() const {
  require(defined(), "detach", "undefined tensor");
  Tensor t = *this;
  t.id_ = next_id();
  return t;
}

Tensor Tensor::view(const TensorSpec& spec) const {
  Tensor t = detach();
  if (spec.in_place) return t;
  t.shape_ = spec.shape;
  t.strides_ = spec.strides;
  t.offset_ += spec.offset;
  return t;
}

Tensor Tensor::hollow() const {
  Tensor t = *this;
  t.storage_.reset();
  return t;
}

void Tensor::keep_host_copy(const Tensor& host) const {
  storage_->host_copy = {};
  if (host.defined())
    storage_->host_copy = {host.storage_,
                           static_cast<std::size_t>(host.offset_) * size_of(host.dtype_)};
}

Tensor Tensor::host_copy() const {
  if (!storage_ || !storage_->host_copy.storage || storage_->version() != 0) return {};
  Tensor t = detach();
  t.device_ = Device::cpu;
  t.storage_ = storage_->host_copy.storage;
  t.offset_ += static_cast<std::int64_t>(storage_->host_copy.offset / size_of(dtype_));
  return t;
}

std::string to_string(const Tensor& t) {
  return t.defined() ? fmt::format("{}{}", t.dtype(), t.shape()) : "undefined";
}

}  // namespace hg
