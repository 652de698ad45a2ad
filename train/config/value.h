// Values of a configuration from TOML nodes and from settings, by the type of their key. Private to
// the two sources that compile the TOML library: load.cpp and train/experiment/file.cpp.
#pragma once

#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/config.h"
#include "train/config/key.h"
#include "train/config/toml_text.h"

namespace hg {

inline constexpr std::size_t kLongestText = 64 * 1024;  // far beyond any configuration
inline constexpr std::size_t kMostItems = 4096;

inline std::string_view kind_of(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  if (node.is_string()) return "a string";
  if (node.is_integer()) return "an integer";
  if (node.is_floating_point()) return "a float";
  if (node.is_boolean()) return "a boolean";
  return "a date or time";
}

// What a key of the type expects, in words.
template <class T>
constexpr std::string_view kExpected = "an array";
template <>
inline constexpr std::string_view kExpected<bool> = "true or false";
template <>
inline constexpr std::string_view kExpected<std::int64_t> = "an integer";
template <>
inline constexpr std::string_view kExpected<double> = "a number";
template <>
inline constexpr std::string_view kExpected<std::string> = "a string";
template <>
inline constexpr std::string_view kExpected<CountOrFraction> = "a count or a fraction";

template <class T>
void read_value(const toml::node& node, T& value, const std::string& who) {
  const auto found = node.value_exact<T>();
  usage_require(found.has_value(), who, "expected {}, got {}", kExpected<T>, kind_of(node));
  value = *found;
}

inline void read_value(const toml::node& node, double& value, const std::string& who) {
  if (const auto integer = node.value_exact<std::int64_t>())
    value = static_cast<double>(*integer);
  else
    read_value<double>(node, value, who);
}

inline void read_value(const toml::node& node, CountOrFraction& value, const std::string& who) {
  usage_require(node.is_number(), who, "expected {}, got {}", kExpected<CountOrFraction>,
                kind_of(node));
  if (const auto count = node.value_exact<std::int64_t>())
    value = CountOrFraction::count(*count);
  else
    value = CountOrFraction::fraction(*node.value_exact<double>());
}

template <class T>
void read_value(const toml::node& node, std::vector<T>& values, const std::string& who) {
  const toml::array* array = node.as_array();
  usage_require(array != nullptr, who, "expected an array, got {}", kind_of(node));
  usage_require(array->size() <= kMostItems, who, "expected at most {} items, got {}", kMostItems,
                array->size());
  values.clear();
  for (const toml::node& item : *array) {
    T value{};
    read_value(item, value, who);
    values.push_back(value);
  }
}

// The text as TOML, or where and why it is not.
inline std::variant<toml::table, TomlFault> parse_toml(std::string_view text) {
  if (text.size() > kLongestText) return TomlFault{1, fmt::format("over {} bytes", kLongestText)};
  const auto ascii = to_ascii_toml(text);
  if (const TomlFault* fault = std::get_if<TomlFault>(&ascii)) return *fault;
  try {
    return toml::parse(std::get<std::string>(ascii));
  } catch (const toml::parse_error& error) {
    return TomlFault{error.source().begin.line, printable(error.description(), 200)};
  }
}

inline toml::table toml_or_fail(std::string_view text, const std::string& source) {
  auto parsed = parse_toml(text);
  if (const TomlFault* fault = std::get_if<TomlFault>(&parsed))
    usage_fail(fmt::format("{}:{}", source, fault->line), "not TOML: {}", fault->fault);
  return std::get<toml::table>(std::move(parsed));
}

// The value of a setting "key=value": TOML, where the quotes of a string may be left out.
struct SettingValue {
  std::string text;
};

template <class T>
void read_value(const SettingValue& setting, T& value, const std::string& who) {
  const bool quoted = setting.text.starts_with('"') || setting.text.starts_with('\'');
  const bool bare = std::is_same_v<T, std::string> && !quoted;
  const std::string text = bare ? toml_string(setting.text) : setting.text;
  const auto parsed = parse_toml("value = " + text);
  const toml::table* table = std::get_if<toml::table>(&parsed);
  usage_require(table != nullptr && table->size() == 1, who, "expected {}, got {}", kExpected<T>,
                text.empty() ? "nothing" : printable(text));
  read_value(*table->get("value"), value, who);
}

}  // namespace hg
