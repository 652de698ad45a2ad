// Elementwise maths and row reductions on Eigen's packets, for any packet width. Loads are always
// unaligned and a tail runs through a padded packet, so a value's bits depend neither on its
// address nor on its place in the row. Double only serves gradient checks: it calls <cmath> lane by
// lane.
#pragma once

// GCC 12 warns of its own AVX-512 intrinsics (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#pragma GCC diagnostic pop
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace hg {
namespace ei = Eigen::internal;
}  // namespace hg

namespace hg::cpu {

template <class T>
using Packet = typename ei::packet_traits<T>::type;
template <class P>
using Lane = typename ei::unpacket_traits<P>::type;
template <class T>
inline constexpr int kLanes = ei::unpacket_traits<Packet<T>>::size;

template <class P>
EIGEN_ALWAYS_INLINE P splat(double value) {
  return ei::pset1<P>(static_cast<Lane<P>>(value));
}

// first + x second + x^2 third + ... by Horner's rule
template <class P, class... More>
EIGEN_ALWAYS_INLINE P polynomial(P x, double first, More... more) {
  if constexpr (sizeof...(more) == 0)
    return splat<P>(first);
  else
    return ei::pmadd(polynomial(x, more...), x, splat<P>(first));
}

template <class P, class F>
EIGEN_ALWAYS_INLINE P per_lane(P x, F f) {
  constexpr int lanes = ei::unpacket_traits<P>::size;
  Lane<P> values[lanes];
  ei::pstoreu(values, x);
  for (Lane<P>& v : values) v = f(v);
  return ei::ploadu<P>(values);
}

template <class P>
inline constexpr bool kIsDouble = std::is_same_v<Lane<P>, double>;

// pmax(x, c) and pmin(x, c) with the variable first return a NaN of x on every architecture.
template <class P>
EIGEN_ALWAYS_INLINE P clamp(P x, double low, double high) {
  return ei::pmin(ei::pmax(x, splat<P>(low)), splat<P>(high));
}

// e^x = 2^n e^r with |r| <= ln2 / 2. Adding 1.5 * 2^23 + 127 rounds x / ln2 to n and leaves n +
// 127, the exponent field of 2^n, in the low bits; n = -127 gives the field 0 and so underflows to
// 0.
template <class P>
EIGEN_ALWAYS_INLINE P vexp(P x) {
  if constexpr (kIsDouble<P>) {
    return per_lane(x, [](double v) { return std::exp(v); });
  } else {
    constexpr double kRound = 12582912.0 + 127.0;
    const P in = clamp(x, -88.0, 89.0);
    const P shifted = ei::pmadd(in, splat<P>(1.44269504088896341), splat<P>(kRound));
    const P n = ei::psub(shifted, splat<P>(kRound));
    P r = ei::pmadd(n, splat<P>(-0.693359375), in);  // ln2 in two parts, the first one exact
    r = ei::pmadd(n, splat<P>(2.12194440054690583e-4), r);
    const P tail = polynomial(r, 0.49999994039, 0.16666521132, 0.041668388993, 0.0083687175065,
                              0.0013814598788);
    P e = ei::padd(ei::pmadd(ei::pmul(r, r), tail, r), splat<P>(1.0));
    // 2^128 has no float: there the last factor of 2 goes into e.
    const P capped = ei::pmin(shifted, splat<P>(kRound + 127.0));
    e = ei::pmadd(e, ei::psub(shifted, capped), e);
    using Int = typename ei::unpacket_traits<P>::integer_packet;
    return ei::pmul(
        e, ei::preinterpret<P>(ei::plogical_shift_left<23>(Int(ei::preinterpret<Int>(capped)))));
  }
}

// 2^x for x up to 120, cheaper than vexp as nothing can overflow. x = n + r with |r| <= 1/2, n as
// in vexp; below -126.5 it is 0. Float only.
template <class P>
EIGEN_ALWAYS_INLINE P exp2_of(P x) {
  constexpr double kRound = 12582912.0 + 127.0;
  const P in = ei::pmax(x, splat<P>(-127.0));
  const P shifted = ei::padd(in, splat<P>(kRound));
  const P r = ei::psub(in, ei::psub(shifted, splat<P>(kRound)));
  const P e = polynomial(r, 1.0, 0.69314718803, 0.24022650761, 0.055503571142, 0.0096180825573,
                         0.0013390863365, 0.00015453162942);
  using Int = typename ei::unpacket_traits<P>::integer_packet;
  return ei::pmul(
      e, ei::preinterpret<P>(ei::plogical_shift_left<23>(Int(ei::preinterpret<Int>(shifted)))));
}

inline constexpr double kLog2E = 1.44269504088896341;

// exp(scale x - shift) where that is not large, as a power of 2.
template <class T>
struct ScaledExp {
  using P = Packet<T>;
  P scale, shift;

  ScaledExp(T scale_of_x, T shift_of_all)
      : scale(ei::pset1<P>(scale_of_x * unit())), shift(ei::pset1<P>(-shift_of_all * unit())) {}

  EIGEN_ALWAYS_INLINE P operator()(P x) const {
    const P power = ei::pmadd(x, scale, shift);
    if constexpr (kIsDouble<P>)
      return vexp(power);
    else
      return exp2_of(power);
  }

 private:
  static constexpr T unit() { return static_cast<T>(kIsDouble<P> ? 1 : kLog2E); }
};

// 1 / x for x in [1, 100], within one unit in the last place: a guess by the bits, within 1/8, made
// better twice, each time to the third power. A division takes three times as long. Float only.
template <class P>
EIGEN_ALWAYS_INLINE P reciprocal(P x) {
  using Int = typename ei::unpacket_traits<P>::integer_packet;
  const Int guess = ei::psub(ei::pset1<Int>(0x7ef311c7), Int(ei::preinterpret<Int>(x)));
  const P minus = ei::pnegate(x), one = splat<P>(1.0);
  const auto better = [&](P r) {
    const P error = ei::pmadd(minus, r, one);
    return ei::pmadd(r, ei::pmadd(error, error, error), r);
  };
  return better(better(ei::preinterpret<P>(guess)));
}

// For a >= 0: density = exp(-a^2 / 2) and 1 - Phi(a) = mills * density (the normal's Mills ratio up
// to a constant), so that cdf and pdf share one exponential. Float only.
template <class P>
EIGEN_ALWAYS_INLINE void normal_tail(P a, P& mills, P& density) {
  density = exp2_of(ei::pmul(ei::pmul(a, a), splat<P>(-0.5 * kLog2E)));
  const P t = reciprocal(ei::pmadd(a, splat<P>(0.3), splat<P>(1.0)));
  mills = ei::pmul(t, polynomial(t, 0.11962929368, 0.12075407803, 0.099912680686, 0.12856447697,
                                 -0.05368931219, 0.20635993779, -0.15720696747, 0.035675738007));
}

template <class P>
EIGEN_ALWAYS_INLINE P flip_sign_if_negative(P x, P value) {
  return ei::pselect(ei::pcmp_lt(x, splat<P>(0.0)), ei::pnegate(value), value);
}

template <class P>
EIGEN_ALWAYS_INLINE P verf(P x) {
  if constexpr (kIsDouble<P>) {
    return per_lane(x, [](double v) { return std::erf(v); });
  } else {
    const P a = ei::pmin(ei::pabs(x), splat<P>(9.0));
    P mills, density;
    normal_tail(ei::pmul(a, splat<P>(1.41421356237309505)), mills, density);
    const P magnitude = ei::pmadd(ei::pmul(density, splat<P>(-2.0)), mills, splat<P>(1.0));
    const P far = flip_sign_if_negative(x, magnitude);
    const P near = ei::pmul(
        x, polynomial(ei::pmul(a, a), 1.1283791065, -0.37612625957, 0.11283585429, -0.026853810996,
                      0.0051883258857, -0.00080101768253, 7.8538025264e-5));
    return ei::pselect(ei::pcmp_lt(a, splat<P>(1.0)), near, far);
  }
}

inline constexpr double kGeluFar = 14.0;  // beyond it 1 - Phi is 0 in float

// x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|))
template <class P>
EIGEN_ALWAYS_INLINE P vgelu(P x) {
  if constexpr (kIsDouble<P>) {
    return per_lane(x, [](double v) { return 0.5 * v * std::erfc(-v * 0.70710678118654752); });
  } else {
    const P a = ei::pmin(ei::pabs(x), splat<P>(kGeluFar));
    P mills, density;
    normal_tail(a, mills, density);
    return ei::pmadd(ei::pmul(a, density), ei::pnegate(mills), ei::pmax(x, splat<P>(0.0)));
  }
}

// Phi(x) + x phi(x) = 1/2 + sign(x) (1/2 - (1 - Phi(|x|)) + |x| phi(|x|))
template <class P>
EIGEN_ALWAYS_INLINE P vgelu_grad(P x) {
  if constexpr (kIsDouble<P>) {
    return per_lane(x, [](double v) {
      return 0.5 * std::erfc(-v * 0.70710678118654752) +
             v * 0.39894228040143268 * std::exp(-0.5 * v * v);
    });
  } else {
    const P a = ei::pmin(ei::pabs(x), splat<P>(kGeluFar));
    P mills, density;
    normal_tail(a, mills, density);
    const P half = splat<P>(0.5);
    const P slope = ei::pmadd(a, splat<P>(0.39894228040143268), ei::pnegate(mills));
    return ei::padd(half, flip_sign_if_negative(x, ei::pmadd(density, slope, half)));
  }
}

template <class P>
EIGEN_ALWAYS_INLINE P vtanh(P x) {
  if constexpr (kIsDouble<P>)
    return per_lane(x, [](double v) { return std::tanh(v); });
  else
    return ei::generic_fast_tanh_float(x);
}

template <class P>
EIGEN_ALWAYS_INLINE P vsigmoid(P x) {
  const P one = splat<P>(1.0);
  return ei::pdiv(one, ei::padd(one, vexp(ei::pnegate(x))));
}

template <class P>
EIGEN_ALWAYS_INLINE P vlog(P x) {
  if constexpr (kIsDouble<P>)
    return per_lane(x, [](double v) { return std::log(v); });
  else
    return ei::plog(x);
}

// Bits of the first `count` lanes, where packets can be loaded and stored in part.
template <class P>
EIGEN_ALWAYS_INLINE auto first_lanes(std::int64_t count) {
  return static_cast<typename ei::unpacket_traits<P>::mask_t>((1u << count) - 1);
}

// So many elements in whole packets.
template <class T>
constexpr std::int64_t padded_size(std::int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

// The first `count` lanes of p, the others holding `padding`.
template <class T>
EIGEN_ALWAYS_INLINE Packet<T> padded(Packet<T> p, std::int64_t count, T padding = 0) {
  using P = Packet<T>;
  const P taken = ei::pcmp_lt(ei::plset<P>(T{0}), ei::pset1<P>(static_cast<T>(count)));
  return ei::pselect(taken, p, ei::pset1<P>(padding));
}

// Reads no more than `count` elements.
template <class T>
EIGEN_ALWAYS_INLINE Packet<T> load_padded(const T* x, std::int64_t count, T padding = 0) {
  using P = Packet<T>;
  if constexpr (ei::unpacket_traits<P>::masked_load_available) {
    const P values = ei::ploadu<P>(x, first_lanes<P>(count));
    return padding == 0 ? values : padded<T>(values, count, padding);
  } else {
    T values[kLanes<T>];
    for (int i = 0; i < kLanes<T>; ++i) values[i] = i < count ? x[i] : padding;
    return ei::ploadu<P>(values);
  }
}

template <class T>
EIGEN_ALWAYS_INLINE void store_partly(T* y, std::int64_t count, Packet<T> p) {
  using P = Packet<T>;
  if constexpr (ei::unpacket_traits<P>::masked_store_available) {
    ei::pstoreu(y, p, first_lanes<P>(count));
  } else {
    T values[kLanes<T>];
    ei::pstoreu(values, p);
    for (std::int64_t i = 0; i < count; ++i) y[i] = values[i];
  }
}

// y[i] = f(x[i]...) for i < n, f on packets: map(f, n, y, a, b) runs y = f(a, b). y may be an
// input.
// f writes a product plus a sum as pmadd: the compiler may contract pmul and padd, or may not.
template <class F, class T, class... In>
void map(F f, std::int64_t n, T* y, const In*... x) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    ei::pstoreu(y + i, f(ei::ploadu<Packet<T>>(x + i)...));
  }
  if (i < n) store_partly(y + i, n - i, f(load_padded<T>(x + i, n - i)...));
}

// Folds f(0), f(lanes), ... into four interleaved partial results; f(i, count) gives the packet of
// the elements [i, i + count), its lanes past `count` holding `identity`. reduce(packet) folds
// lanes.
template <class T, class F, class Combine, class Reduce>
EIGEN_ALWAYS_INLINE T fold(std::int64_t n, T identity, F f, Combine combine, Reduce reduce) {
  constexpr int lanes = kLanes<T>;
  using P = Packet<T>;
  P a = ei::pset1<P>(identity), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = combine(a, f(i, std::int64_t{lanes}));
    b = combine(b, f(i + lanes, std::int64_t{lanes}));
    c = combine(c, f(i + 2 * lanes, std::int64_t{lanes}));
    d = combine(d, f(i + 3 * lanes, std::int64_t{lanes}));
  }
  for (; i + lanes <= n; i += lanes) a = combine(a, f(i, std::int64_t{lanes}));
  if (i < n) b = combine(b, f(i, n - i));
  return reduce(combine(combine(a, b), combine(c, d)));
}

template <class T, class F>
EIGEN_ALWAYS_INLINE T fold_sum(std::int64_t n, F f) {
  return fold(
      n, T{0}, f, [](auto sum, auto v) { return ei::padd(sum, v); },
      [](auto sum) { return ei::predux(sum); });
}

// Largest element; -inf for n = 0. combine(a, b) and reduce(packet) tell what becomes of a NaN.
template <class T, class Combine, class Reduce>
EIGEN_ALWAYS_INLINE T fold_max(std::int64_t n, const T* x, Combine combine, Reduce reduce) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const auto load = [x](std::int64_t i, std::int64_t count) {
    return count == kLanes<T> ? ei::ploadu<Packet<T>>(x + i) : load_padded(x + i, count, lowest);
  };
  return fold(n, lowest, load, combine, reduce);
}

// Largest element; NaN if any is NaN; -inf for n = 0.
template <class T>
T row_max(std::int64_t n, const T* x) {
  return fold_max(
      n, x, [](auto a, auto b) { return ei::pmax<Eigen::PropagateNaN>(a, b); },
      [](auto p) { return ei::predux_max<Eigen::PropagateNaN>(p); });
}

// The same where a NaN may be passed over, as before an exp_sum, which meets it again; faster.
template <class T>
T row_max_of_numbers(std::int64_t n, const T* x) {
  return fold_max(
      n, x, [](auto a, auto b) { return ei::pmax(a, b); },
      [](auto p) { return ei::predux_max(p); });
}

// Sum of f(x[i]...), f on packets.
template <class F, class T, class... In>
T row_sum(F f, std::int64_t n, const T* x, const In*... more) {
  const auto value = [&](std::int64_t i, std::int64_t count) {
    if (count == kLanes<T>)
      return f(ei::ploadu<Packet<T>>(x + i), ei::ploadu<Packet<T>>(more + i)...);
    return padded<T>(f(load_padded(x + i, count), load_padded(more + i, count)...), count);
  };
  return fold_sum<T>(n, value);
}

template <class T>
T row_sum(std::int64_t n, const T* x) {
  return row_sum([](auto v) { return v; }, n, x);
}

// y[i] = f(x[i]...) and returns the sum of y. y may be an input.
template <class F, class T, class... In>
T map_sum(F f, std::int64_t n, T* y, const In*... x) {
  const auto value = [&](std::int64_t i, std::int64_t count) {
    if (count == kLanes<T>) {
      const Packet<T> p = f(ei::ploadu<Packet<T>>(x + i)...);
      ei::pstoreu(y + i, p);
      return p;
    }
    const Packet<T> p = f(load_padded<T>(x + i, count)...);
    store_partly(y + i, count, p);
    return padded<T>(p, count);
  };
  return fold_sum<T>(n, value);
}

// x . y, y += x, y *= x, y = factor x and y += factor x for rows of n elements. y may be x.
template <class T>
T dot(std::int64_t n, const T* x, const T* y) {
  return row_sum([](auto a, auto b) { return ei::pmul(a, b); }, n, x, y);
}
template <class T>
void add_row(std::int64_t n, const T* x, T* y) {
  map([](auto a, auto b) { return ei::padd(a, b); }, n, y, y, x);
}
template <class T>
void multiply_row(std::int64_t n, const T* x, T* y) {
  map([](auto a, auto b) { return ei::pmul(a, b); }, n, y, y, x);
}
template <class T>
void scale_row(std::int64_t n, T factor, const T* x, T* y) {
  const auto f = ei::pset1<Packet<T>>(factor);
  map([&](auto v) { return ei::pmul(v, f); }, n, y, x);
}
template <class T>
void add_scaled(std::int64_t n, T factor, const T* x, T* y) {
  const auto f = ei::pset1<Packet<T>>(factor);
  map([&](auto a, auto v) { return ei::pmadd(v, f, a); }, n, y, y, x);
}

// y[i] = exp(scale x[i] - shift) and returns the sum of y: a softmax row up to its division, where
// no exponent is above 0 but by rounding.
template <class T>
T exp_sum(std::int64_t n, const T* x, T scale, T shift, T* y) {
  const ScaledExp<T> f(scale, shift);
  return map_sum([&](Packet<T> v) { return f(v); }, n, y, x);
}

}  // namespace hg::cpu
