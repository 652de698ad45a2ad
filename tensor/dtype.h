// Element types. f64 serves gradient checks and references; i64 holds labels and indices, u8 the
// pixels of images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tensor/base/error.h"

namespace hg {

enum class DType : std::uint8_t { f32, f64, i64, u8 };

constexpr std::size_t size_of(DType t) { return t == DType::u8 ? 1 : t == DType::f32 ? 4 : 8; }
constexpr bool is_float(DType t) { return t == DType::f32 || t == DType::f64; }
constexpr std::string_view to_string(DType t) {
  constexpr std::string_view kNames[] = {"f32", "f64", "i64", "u8"};
  return kNames[static_cast<int>(t)];
}

template <class T>
constexpr DType dtype_of() {
  constexpr bool same[] = {std::is_same_v<T, float>, std::is_same_v<T, double>,
                           std::is_same_v<T, std::int64_t>, std::is_same_v<T, std::uint8_t>};
  constexpr int found = same[0] ? 0 : same[1] ? 1 : same[2] ? 2 : 3;  // in the order of DType
  static_assert(same[found], "no tensor holds such elements");
  return static_cast<DType>(found);
}

// Calls f.operator()<float>() or f.operator()<double>().
decltype(auto) dispatch_float(DType t, std::string_view who, auto&& f) {
  require(is_float(t), who, "expected f32 or f64, got {}", to_string(t));
  if (t == DType::f32) return f.template operator()<float>();
  return f.template operator()<double>();
}

// The same over all element types, for ops that only move data.
decltype(auto) dispatch_any(DType t, auto&& f) {
  if (t == DType::f32) return f.template operator()<float>();
  if (t == DType::f64) return f.template operator()<double>();
  if (t == DType::u8) return f.template operator()<std::uint8_t>();
  return f.template operator()<std::int64_t>();
}

}  // namespace hg

template <>
struct fmt::formatter<hg::DType> : fmt::formatter<std::string_view> {
  auto format(hg::DType t, fmt::format_context& ctx) const {
    return fmt::formatter<std::string_view>::format(hg::to_string(t), ctx);
  }
};
