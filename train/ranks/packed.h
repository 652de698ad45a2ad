// Values as bytes and back, for messages between ranks of one program on one kind of machine.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "tensor/base/error.h"

namespace hg {

class Packer {
 public:
  template <class T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void bytes(std::string_view bytes) {
    value(bytes.size());
    bytes_.append(bytes);
  }
  const std::string& all() const { return bytes_; }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view bytes() { return take(value<std::size_t>()); }

 private:
  std::string_view take(std::size_t count) {
    require(count <= rest_.size(), "ranks", "a message of {} bytes is too short", rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
};

}  // namespace hg
