#include "tensor/transfer.h"

#include "tensor/backend.h"
#include "tensor/ops/permute.h"

namespace hg {

Tensor to_device(const Tensor& t, Device device) {
  if (t.device() == device) return t;
  const Tensor from = contiguous(t);
  const Tensor to = Tensor::empty(t.shape(), t.dtype(), device);
  Backend& cuda = backend(Device::cuda);  // one of the two is on it
  cuda.copy(to.raw(), from.raw(), from.bytes());
  if (device == Device::cpu) cuda.synchronize();
  return to;
}

}  // namespace hg
