#include "tensor/figure.h"

namespace hg {

Figure Figure::sum(In scalars) {
  Figure figure;
  for (const Tensor& t : scalars) {
    require(t.numel() == 1 && t.dtype() == DType::f32, "figure", "expected f32[1], got {}", t);
    if (!t.storage()) continue;  // of a dry run, which computes nothing
    if (t.device() == Device::cpu)
      figure.value_ += static_cast<double>(t.item<float>());
    else
      figure.arriving_.push_back({cuda::download(t.raw(), t.bytes()), 1});
  }
  return figure;
}

Figure::operator double() const {
  double sum = value_;
  for (const Part& part : arriving_)
    sum += part.factor * static_cast<double>(*static_cast<const float*>(part.download->wait()));
  return sum;
}

Figure& Figure::operator+=(const Figure& other) {
  value_ += other.value_;
  arriving_.insert(arriving_.end(), other.arriving_.begin(), other.arriving_.end());
  return *this;
}

Figure& Figure::operator*=(double factor) {
  value_ *= factor;
  for (Part& part : arriving_) part.factor *= factor;
  return *this;
}

}  // namespace hg
