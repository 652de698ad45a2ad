#include "tensor/base/json_value.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tensor/base/files.h"
#include "tensor/base/json_parse.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

using Node = nlohmann::ordered_json;

constexpr int kDeepest = 32;

const Node& node_of(const std::shared_ptr<const void>& node) {
  return *static_cast<const Node*>(node.get());
}

}  // namespace

JsonValue::JsonValue(std::string_view text, const std::string& source)
    : JsonValue(std::make_shared<const Node>(parse_json<Node>(text, source, kDeepest)), source,
                "") {}

JsonValue::JsonValue(std::shared_ptr<const void> node, std::string source, std::string path)
    : node_(std::move(node)), source_(std::move(source)), path_(std::move(path)) {}

JsonValue JsonValue::read(const std::string& path) { return {read_text(path), path}; }

JsonValue JsonValue::at(const void* node, const std::string& key) const {
  return {{node_, node}, source_, path_.empty() ? printable(key) : path_ + "." + printable(key)};
}

std::vector<std::string> JsonValue::keys() const {
  if (!node_of(node_).is_object()) refuse("an object");
  std::vector<std::string> names;
  for (const auto& [key, value] : node_of(node_).items()) names.push_back(key);
  return names;
}

bool JsonValue::has(std::string_view key) const {
  if (!node_of(node_).is_object()) refuse("an object");
  const auto found = node_of(node_).find(key);
  return found != node_of(node_).end() && !found->is_null();
}

JsonValue JsonValue::operator[](std::string_view key) const {
  if (!node_of(node_).is_object()) refuse("an object");
  const auto found = node_of(node_).find(key);
  usage_require(found != node_of(node_).end(), where(), "{} is missing", key);
  return at(&*found, std::string(key));
}

std::optional<double> JsonValue::number_if_any(std::string_view key) const {
  return has(key) ? std::optional((*this)[key].number()) : std::nullopt;
}

std::string JsonValue::text_if_any(std::string_view key) const {
  return has(key) ? (*this)[key].text() : "";
}

std::vector<JsonValue> JsonValue::items() const {
  if (!node_of(node_).is_array()) refuse("a list");
  std::vector<JsonValue> all;
  for (const Node& item : node_of(node_)) all.push_back(at(&item, std::to_string(all.size())));
  return all;
}

double JsonValue::number(double low, double high) const {
  const Node& node = node_of(node_);
  if (!node.is_number() || node.get<double>() < low || node.get<double>() > high) {
    const bool bounded = high < std::numeric_limits<double>::max();
    refuse(bounded ? fmt::format("a number from {} to {}", low, high) : "a number");
  }
  return node;
}

std::int64_t JsonValue::integer() const {
  const Node& node = node_of(node_);
  if (!node.is_number_integer()) refuse("a whole number");
  if (node.is_number_unsigned() && !std::in_range<std::int64_t>(node.get<std::uint64_t>()))
    refuse("a whole number below 2^63");
  return node;
}

std::uint64_t JsonValue::count() const {
  if (!node_of(node_).is_number_unsigned()) refuse("a whole number of at least 0");
  return node_of(node_);
}

std::string JsonValue::text() const {
  if (!node_of(node_).is_string()) refuse("a text");
  return node_of(node_);
}

std::string JsonValue::where() const { return path_.empty() ? source_ : source_ + ": " + path_; }

void JsonValue::refuse(std::string_view expected) const {
  usage_fail(where(), "expected {}, got {}", expected, printable(node_of(node_).dump(), 60));
}

}  // namespace hg
