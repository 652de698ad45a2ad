// An environment variable for the length of a test.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

namespace hg::testing {

class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    set(value);
  }
  ~Environment() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  void set(const std::string& value) const { ::setenv(name_, value.c_str(), 1); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace hg::testing
