// Up to six extents held inline, so that shapes never allocate.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "tensor/base/error.h"

namespace hg {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims) {
    for (const std::int64_t d : dims) push_back(d);
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[axis]; }
  std::int64_t& operator[](int axis) { return dims_[axis]; }
  std::int64_t back() const { return dims_[rank_ - 1]; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }

  void push_back(std::int64_t d) {
    require(rank_ < kMaxRank, "shape", "more than {} axes", kMaxRank);
    dims_[rank_++] = d;
  }
  void erase(int axis);

  std::int64_t numel() const { return product(0, rank_); }
  // Product of the extents of axes [first, last).
  std::int64_t product(int first, int last) const {
    std::int64_t n = 1;
    for (int i = first; i < last; ++i) n *= dims_[i];
    return n;
  }
  // The axes [first, last) as a shape of their own.
  Shape slice(int first, int last) const {
    return Shape(std::span(begin() + first, begin() + last));
  }
  Shape contiguous_strides() const;

  bool operator==(const Shape& o) const {
    return rank_ == o.rank_ && std::equal(begin(), end(), o.begin());
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2,197,64]"

// Throws in the name of `who` unless extents are >= 0 and no product of them overflows, in elements
// or bytes.
void check_extents(const Shape& shape, std::string_view who);

// Negative axes count from the end; anything out of range throws in the name of `who`.
int normalize_axis(int axis, const Shape& shape, std::string_view who);

// A shape seen around one axis: [outer, n, inner].
struct AxisView {
  std::int64_t outer, n, inner;
};
inline AxisView around(const Shape& s, int axis) {
  return {s.product(0, axis), s[axis], s.product(axis + 1, s.rank())};
}

}  // namespace hg

template <>
struct fmt::formatter<hg::Shape> : fmt::formatter<std::string> {
  auto format(const hg::Shape& s, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(hg::to_string(s), ctx);
  }
};
