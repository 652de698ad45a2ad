#include "tensor/transfer.h"

#include "tensor/backend.h"

namespace hg {

Tensor to_device(const Tensor& t, Device device) {
  if (!t.defined() || t.device() == device) return t;
  if (!t.storage()) return Tensor::hollow_of({t.dtype(), t.shape(), device});
  const Tensor from = contiguous(t);
  const Tensor to = Tensor::empty(t.shape(), t.dtype(), device);
  copy_into(to, from);
  if (t.dtype() == DType::i64 && device != Device::cpu) to.keep_host_copy(from);
  return to;
}

Tensor to_device_as_view(const Tensor& t, Device device) {
  if (t.contiguous()) return to_device(t, device);
  TensorSpec dense = t.spec(), strided = t.spec();
  dense.strides = strided.strides = t.strides();
  const int r = t.rank();
  std::swap(dense.shape[r - 1], dense.shape[r - 2]);
  std::swap(dense.strides[r - 1], dense.strides[r - 2]);
  return to_device(t.view(dense), device).view(strided);
}

Tensor SentAhead::send(const Tensor& t, Device device) {
  if (!t.defined() || t.device() == device || t.bytes() == 0) return to_device(t, device);
  const Tensor to = Tensor::empty(t.shape(), t.dtype(), device);
  if (!copies_) copies_ = cuda::upload_ahead();
  copies_->send(to.raw(), t.raw(), t.bytes());
  if (t.dtype() == DType::i64) to.keep_host_copy(t);
  return to;
}

Tensor on_host(const Tensor& t) {
  if (t.device() == Device::cpu) return t;
  const Tensor kept = t.host_copy();
  return kept.defined() ? kept : to_device(t, Device::cpu);
}

void copy_into(const Tensor& to, const Tensor& from) {
  require(to.shape() == from.shape() && to.dtype() == from.dtype() && to.contiguous() &&
              from.contiguous(),
          "copy", "{} into {}", from, to);
  if (from.bytes() == 0 || to.raw() == from.raw()) return;
  if (to.device() == Device::cpu && from.device() == Device::cpu)
    return backend(Device::cpu).copy(to.raw(), from.raw(), from.bytes());
  if (to.device() != Device::cpu) to.keep_host_copy({});
  if (from.device() == Device::cpu) return cuda::upload(to.raw(), from.raw(), from.bytes());
  cuda::backend().copy(to.raw(), from.raw(), from.bytes());
  if (to.device() == Device::cpu) cuda::backend().synchronize();
}

}  // namespace hg
