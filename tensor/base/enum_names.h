// Names of an enum's values, taken from the compiler: they are spelled in the enum alone. For enums
// that count up from 0. A name that would be a keyword ends in '_', which is left out: auto_ is
// "auto".
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace hg {
namespace enum_detail {

// "head" of Gate::head, "" of a value without a name, which the compiler writes as (Gate)7.
template <auto Value>
constexpr auto spelled() {
  std::string_view text = __PRETTY_FUNCTION__;  // ... Value = hg::Gate::head]
  text.remove_suffix(1);
  text = text.substr(text.find_last_of(":) ") + 1);
  if (text.front() >= '0' && text.front() <= '9') return std::string_view();
  return text.back() == '_' ? text.substr(0, text.size() - 1) : text;
}

template <class Enum, int I = 0>
constexpr std::size_t count() {
  if constexpr (spelled<static_cast<Enum>(I)>().empty())
    return I;
  else
    return count<Enum, I + 1>();
}

template <class Enum, std::size_t... I>
constexpr std::array<std::string_view, sizeof...(I)> all(std::index_sequence<I...>) {
  return {spelled<static_cast<Enum>(I)>()...};
}

}  // namespace enum_detail

// By value.
template <class Enum>
inline constexpr auto kEnumNames =
    enum_detail::all<Enum>(std::make_index_sequence<enum_detail::count<Enum>()>());

template <class Enum>
constexpr std::string_view enum_name(Enum value) {
  return kEnumNames<Enum>.at(static_cast<std::size_t>(value));
}

// The value of that name, if there is one.
template <class Enum>
constexpr std::optional<Enum> enum_value(std::string_view name) {
  const auto& names = kEnumNames<Enum>;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace hg
