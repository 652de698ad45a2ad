// Bad usage or input: what the user gave cannot be worked on. main() ends with exit code 2 for it,
// and with 1 for any other Error.
#pragma once

#include "tensor/base/error.h"

namespace hg {

class UsageError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void usage_fail(std::string_view who, fmt::format_string<Args...> fault,
                             Args&&... args) {
  throw UsageError(fmt::format("{}: {}", who, fmt::format(fault, std::forward<Args>(args)...)));
}

template <class... Args>
void usage_require(bool ok, std::string_view who, fmt::format_string<Args...> fault,
                   Args&&... args) {
  if (!ok) [[unlikely]]
    usage_fail(who, fault, std::forward<Args>(args)...);
}

// work(), where an Error means that what the user gave is at fault. `who` names it, if the message
// does not.
decltype(auto) blame_input(const std::string& who, auto&& work) {
  try {
    return work();
  } catch (const Error& e) {
    if (who.empty()) throw UsageError(e.what());
    usage_fail(who, "{}", e.what());
  }
}

}  // namespace hg
