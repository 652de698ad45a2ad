// A number for the host that a device may still be computing. Only reading it waits, so a figure
// asked for early and read late costs no wait of its own.
#pragma once

#include <memory>

#include "tensor/cuda_device.h"
#include "tensor/op.h"

namespace hg {

class Figure {
 public:
  Figure(double value = 0) : value_(value) {}
  // The sum of these [1] f32 tensors; those without contents count as 0.
  static Figure sum(In scalars);
  static Figure of(const Tensor& scalar) { return sum({&scalar, 1}); }

  operator double() const;
  bool here() const { return arriving_.empty(); }  // reading does not wait
  Figure& operator+=(const Figure& other);
  Figure& operator*=(double factor);

 private:
  struct Part {
    std::shared_ptr<cuda::Download> download;
    double factor;
  };
  double value_;
  CachedVector<Part> arriving_;
};

}  // namespace hg
