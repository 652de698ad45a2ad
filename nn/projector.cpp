#include "nn/projector.h"

#include "tensor/observer.h"
#include "tensor/ops/l2_normalize.h"

namespace hg::nn {

Projector::Projector(const Builder& parent, std::int64_t width)
    : hidden_(parent.child("projector"), "0", width, width),
      out_(parent.child("projector"), "2", width, kWidth) {}

Tensor Projector::operator()(const Tensor& features) const {
  const Scope scope("projector");
  return l2_normalize(out_(hidden_.with_gelu(features)));
}

}  // namespace hg::nn
