// The one exception type of the engine: what failed, why, and the shapes or values at fault.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

namespace hg {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// fail("softmax", "axis {} out of range for {}", 3, shape) -> "softmax: axis 3 out of range for
// ..."
template <class... Args>
[[noreturn]] void fail(std::string_view who, fmt::format_string<Args...> fault, Args&&... args) {
  throw Error(fmt::format("{}: {}", who, fmt::format(fault, std::forward<Args>(args)...)));
}

template <class... Args>
void require(bool ok, std::string_view who, fmt::format_string<Args...> fault, Args&&... args) {
  if (!ok) [[unlikely]]
    fail(who, fault, std::forward<Args>(args)...);
}

}  // namespace hg
