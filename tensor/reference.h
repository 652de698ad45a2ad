// What an op's reference (ops/<stem>_ref.h) is written in: plain loops over a scalar T.
// T = double gives the values an op is held to; T = Counted gives its cost: every operator counts
// one FLOP, mac() two FLOPs of a matrix product, and each element touched counts its bytes once.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/cost.h"
#include "tensor/tensor.h"

// Each op class has its own, in namespace hg::ops:
//   template <class T> void reference(const Softmax& op, RefIn<T> in, RefOut<T> out);
namespace hg {
namespace ref {

// Where Counted books its operations: the cost by part, as Op::cost states it.
class Tally {
 public:
  void begin_part(const std::string& name) { current_ = &parts_[name]; }
  Cost& current() { return *current_; }
  const std::map<std::string, Cost>& parts() const { return parts_; }
  bool paused = false;

 private:
  std::map<std::string, Cost> parts_{{"", {}}};
  Cost* current_ = &parts_[""];
};
inline thread_local Tally* tally = nullptr;

// What follows is booked under this part of a fused op.
inline void part(const char* name) {
  if (tally) tally->begin_part(name);
}

// While alive nothing is counted: work done once per row or call (see the convention in cost.h).
class PerRow : NoCopy {
 public:
  PerRow() : paused_(tally && std::exchange(tally->paused, true)) {}
  ~PerRow() {
    if (tally) tally->paused = paused_;
  }

 private:
  bool paused_;  // before
};
// The result of f(), which is not counted.
auto once(auto f) {
  const PerRow uncounted;
  return f();
}

struct Counted {
  double v = 0;
  Counted() = default;
  explicit Counted(double value) : v(value) {}
  explicit operator double() const { return v; }
};
inline Counted ew(double v) {
  if (tally && !tally->paused) tally->current().flops_ew += 1;
  return Counted(v);
}
inline Counted operator+(Counted a, Counted b) { return ew(a.v + b.v); }
inline Counted operator-(Counted a, Counted b) { return ew(a.v - b.v); }
inline Counted operator*(Counted a, Counted b) { return ew(a.v * b.v); }
inline Counted operator/(Counted a, Counted b) { return ew(a.v / b.v); }
inline Counted operator-(Counted a) { return ew(-a.v); }
inline Counted& operator+=(Counted& a, Counted b) { return a = a + b; }
inline Counted& operator-=(Counted& a, Counted b) { return a = a - b; }
inline Counted& operator*=(Counted& a, Counted b) { return a = a * b; }
inline bool operator<(Counted a, Counted b) { return (ew(0), a.v < b.v); }
inline bool operator>(Counted a, Counted b) { return (ew(0), a.v > b.v); }
inline Counted exp(Counted a) { return ew(std::exp(a.v)); }
inline Counted log(Counted a) { return ew(std::log(a.v)); }
inline Counted sqrt(Counted a) { return ew(std::sqrt(a.v)); }
inline Counted tanh(Counted a) { return ew(std::tanh(a.v)); }
inline Counted erf(Counted a) { return ew(std::erf(a.v)); }
inline Counted abs(Counted a) { return ew(std::abs(a.v)); }
inline Counted max(Counted a, Counted b) { return ew(a.v < b.v ? b.v : a.v); }
inline Counted min(Counted a, Counted b) { return ew(b.v < a.v ? b.v : a.v); }
// acc += a * b of a matrix product.
inline void mac(Counted& acc, Counted a, Counted b) {
  acc.v += a.v * b.v;
  if (tally && !tally->paused) tally->current().flops_mm += 2;
}

inline double exp(double a) { return std::exp(a); }
inline double log(double a) { return std::log(a); }
inline double sqrt(double a) { return std::sqrt(a); }
inline double tanh(double a) { return std::tanh(a); }
inline double erf(double a) { return std::erf(a); }
inline double abs(double a) { return std::abs(a); }
inline double max(double a, double b) { return a < b ? b : a; }
inline double min(double a, double b) { return b < a ? b : a; }
inline void mac(double& acc, double a, double b) { acc += a * b; }

template <class T>
T mean(const T& sum, std::int64_t n) {
  return once([&] { return sum / T(static_cast<double>(n)); });
}
// x_j becomes exp(x_j) / sum_k exp(x_k); returns the logarithm of that sum.
template <class T>
T softmax(std::vector<T>& x) {
  T top(-std::numeric_limits<double>::infinity()), sum(0);
  for (const T& v : x) top = max(top, v);
  for (T& v : x) v = exp(v - top);
  for (const T& v : x) sum += v;
  for (T& v : x) v = v / sum;
  return once([&] { return top + log(sum); });
}

}  // namespace ref

// One input or output of a reference: row-major values, each counted when first touched.
template <class T>
class RefTensor {
 public:
  explicit RefTensor(const Tensor& t)
      : shape_(t.shape()), element_bytes_(size_of(t.dtype())), integer_(t.dtype() == DType::i64) {
    if (integer_) {
      integers_ = t.to_vector<std::int64_t>();
    } else {
      for (const double v : t.to(DType::f64).to_vector<double>()) values_.emplace_back(v);
    }
    touched_.assign(static_cast<std::size_t>(t.numel()), false);
  }
  explicit RefTensor(const TensorSpec& spec)
      : shape_(spec.shape),
        element_bytes_(size_of(spec.dtype)),
        output_(true),
        integer_(spec.dtype == DType::i64) {
    const auto n = static_cast<std::size_t>(shape_.numel());
    touched_.assign(n, false);
    if (integer_)
      integers_.resize(n);
    else
      values_.resize(n);
  }

  const Shape& shape() const { return shape_; }
  std::int64_t dim(int axis) const { return shape_[axis < 0 ? axis + shape_.rank() : axis]; }
  std::int64_t numel() const { return shape_.numel(); }
  T& operator[](std::int64_t i) { return values_.at(touch(i)); }
  std::int64_t& integer(std::int64_t i) { return integers_.at(touch(i)); }
  bool holds_integers() const { return integer_; }
  const std::vector<T>& values() const { return values_; }
  const std::vector<std::int64_t>& integers() const { return integers_; }

 private:
  std::size_t touch(std::int64_t i) {
    const auto k = static_cast<std::size_t>(i);
    if (ref::tally && !touched_.at(k)) {
      Cost& cost = ref::tally->current();
      (output_ ? cost.bytes_written : cost.bytes_read) += element_bytes_;
      touched_[k] = true;
    }
    return k;
  }

  Shape shape_;
  std::uint64_t element_bytes_;
  bool output_ = false;
  bool integer_;
  std::vector<T> values_;
  std::vector<std::int64_t> integers_;
  std::vector<bool> touched_;
};

// to[j] = from[i], of whatever type the two hold.
template <class T>
void copy_element(RefTensor<T>& from, std::int64_t i, RefTensor<T>& to, std::int64_t j) {
  if (from.holds_integers())
    to.integer(j) = from.integer(i);
  else
    to[j] = from[i];
}

// f(row, n, at) for each row along an axis: at(j) is the place of its element j of n.
void for_rows(const Shape& shape, int axis, auto f) {
  const AxisView v = around(shape, normalize_axis(axis, shape, "ref"));
  for (std::int64_t row = 0; row < v.outer * v.inner; ++row)
    f(row, v.n, [v, first = row / v.inner * v.n * v.inner + row % v.inner](std::int64_t j) {
      return first + j * v.inner;
    });
}

template <class T>
using RefIn = std::span<RefTensor<T>>;
template <class T>
using RefOut = std::span<RefTensor<T>>;

}  // namespace hg
