// Moving tensors between devices. Uploads are queued; what comes to the host is waited for.
#pragma once

#include "tensor/cuda_device.h"
#include "tensor/tensor.h"

namespace hg {

// t itself if it is there already, else a copy in row-major order. One of i64 (labels, ids) on a
// device keeps what it was copied from, which must not change any more: see on_host().
Tensor to_device(const Tensor& t, Device device);

// The same, but a view whose last two axes are swapped stays one.
Tensor to_device_as_view(const Tensor& t, Device device);

// The same for tensors that are wanted later, beside what the device does meanwhile: they may be
// used after arrive(), and must be kept until then. On the CPU nothing happens.
class SentAhead {
 public:
  Tensor send(const Tensor& t, Device device);
  void arrive() {
    if (copies_) copies_->arrive();
  }

 private:
  std::unique_ptr<cuda::UploadAhead> copies_;
};

// Contents as a tensor of the host: t itself if it is there; what the host still has of it, without
// waiting for the device; else a copy.
Tensor on_host(const Tensor& t);

// Replaces contents; shapes and types are the same, devices may differ.
void copy_into(const Tensor& to, const Tensor& from);

// f(t on the host) changes t, wherever it lives.
void edit_on_host(const Tensor& t, auto&& f) {
  const Tensor here = on_host(t);
  f(here);
  if (t.device() != Device::cpu) copy_into(t, here);
}

}  // namespace hg
