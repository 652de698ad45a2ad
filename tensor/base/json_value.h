// JSON that was read, and where it stands: a fault is a UsageError that names file, key and what
// was expected there.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hg {

class JsonValue {
 public:
  JsonValue(std::string_view text, const std::string& source);  // parses it
  static JsonValue read(const std::string& path);               // a file's

  // Of an object.
  std::vector<std::string> keys() const;
  bool has(std::string_view key) const;  // and it is not null
  JsonValue operator[](std::string_view key) const;
  std::optional<double> number_if_any(std::string_view key) const;
  std::string text_if_any(std::string_view key) const;  // "": there is none

  std::vector<JsonValue> items() const;  // of a list
  double number(double low = std::numeric_limits<double>::lowest(),
                double high = std::numeric_limits<double>::max()) const;
  std::int64_t integer() const;
  std::uint64_t count() const;
  std::string text() const;

  std::string where() const;                                  // "FILE: domains.dram"
  [[noreturn]] void refuse(std::string_view expected) const;  // where(), expected this, got that

 private:
  JsonValue(std::shared_ptr<const void> node, std::string source, std::string path);
  JsonValue at(const void* node, const std::string& key) const;

  std::shared_ptr<const void> node_;  // keeps the whole document; its type is json_value.cpp's
  std::string source_, path_;
};

}  // namespace hg
