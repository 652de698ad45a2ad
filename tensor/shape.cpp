#include "tensor/shape.h"

#include <algorithm>
#include <limits>

namespace hg {

void Shape::erase(int axis) {
  std::copy(dims_.begin() + axis + 1, dims_.begin() + rank_, dims_.begin() + axis);
  --rank_;
}

Shape Shape::contiguous_strides() const {
  Shape strides = *this;
  std::int64_t step = 1;
  for (int i = rank_ - 1; i >= 0; --i) {
    strides[i] = step;
    step *= dims_[i];
  }
  return strides;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

void check_extents(const Shape& shape, std::string_view who) {
  constexpr std::int64_t kLargestElement = 8;
  std::int64_t room = std::numeric_limits<std::int64_t>::max() / kLargestElement;
  for (const std::int64_t d : shape) {
    require(d >= 0, who, "negative extent in {}", shape);
    room /= std::max<std::int64_t>(d, 1);
    require(room > 0, who, "{} is too large", shape);
  }
}

int normalize_axis(int axis, const Shape& shape, std::string_view who) {
  const int normal = axis < 0 ? axis + shape.rank() : axis;
  require(normal >= 0 && normal < shape.rank(), who, "axis {} out of range for {}", axis, shape);
  return normal;
}

}  // namespace hg
