// Tensor: a handle on storage with shape, strides and element type. Copies of a handle are the same
// value (same id); every result of an op, views included, is a new value. What computes on tensors
// is an op (tensor/ops); this class only makes them and looks inside.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tensor/allocator.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace hg {

// Everything about a tensor but its contents.
struct TensorSpec {
  DType dtype = DType::f32;
  Shape shape;
  Device device = Device::cpu;

  // An op's output that lives in the storage of input `alias_of`: a view (strides and offset, in
  // elements, as given) or, with `in_place`, the updated input itself.
  int alias_of = -1;
  bool in_place = false;
  Shape strides{};
  std::int64_t offset = 0;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: no value

  // New ones. Contents of empty() are unspecified.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor hollow_of(const TensorSpec& spec);  // shape and dtype without contents
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32,
                     Device device = Device::cpu);
  // Copies of values in row-major order: Tensor::of<float>({2, 2}, {1, 2, 3, 4}).
  template <class T>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor of(const Shape& shape, const std::vector<T>& values) {
    return of<T>(shape, std::span<const T>(values));
  }
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }

  bool defined() const { return id_ != 0; }
  std::uint64_t id() const { return id_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  // Extent of an axis; -1 is the last one.
  std::int64_t dim(int axis) const { return shape_[normalize_axis(axis, shape_, "dim")]; }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return shape_.numel(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  bool contiguous() const;
  TensorSpec spec() const { return spec(shape_); }
  TensorSpec spec(const Shape& shape) const { return {dtype_, shape, device_}; }

  // First element; of a tensor on a GPU an address there. Throws unless T is the type of its
  // elements. The handle is const where only the contents change, as with a pointer.
  template <class T>
  T* data() const {
    return static_cast<T*>(raw(dtype_of<T>()));
  }
  void* raw() const { return raw(dtype_); }
  template <class T>
  T item() const;  // of a tensor with one element
  template <class T>
  std::vector<T> to_vector() const;  // row-major, whatever the strides

  Tensor clone() const;          // own storage, contiguous
  Tensor to(DType dtype) const;  // converted copy
  Tensor detach() const;         // same contents, but a new value no tape knows
  // For run(): the output with this spec, whose alias_of names this tensor.
  Tensor view(const TensorSpec& spec) const;
  Tensor hollow() const;  // the spec alone: shape and dtype, contents released

  const std::shared_ptr<Storage>& storage() const { return storage_; }

  // For transfer.h: whole and contiguous tensors of a device may have a copy on the host, and their
  // views then have it too. Undefined: none.
  void keep_host_copy(const Tensor& host) const;
  Tensor host_copy() const;

 private:
  void* raw(DType expected) const;

  std::shared_ptr<Storage> storage_;
  std::uint64_t id_ = 0;
  Shape shape_, strides_;
  std::int64_t offset_ = 0;  // in elements
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
};

using Tensors = CachedVector<Tensor>;
using TensorSpecs = CachedVector<TensorSpec>;

std::string to_string(const Tensor& t);  // "f32[2,197,64]"

// t itself, or a copy in row-major order if it is a strided view. An op makes it: ops/permute.
Tensor contiguous(const Tensor& t);

}  // namespace hg

template <>
struct fmt::formatter<hg::Tensor> : fmt::formatter<std::string> {
  auto format(const hg::Tensor& t, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(hg::to_string(t), ctx);
  }
};
