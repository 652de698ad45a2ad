// What the emulated device reports: one line naming the kernel, the thread and the places at fault.
#pragma once

#include <stdexcept>
#include <string>

namespace hg::emu {

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A line of device code, taken by default arguments of the intrinsics.
struct Place {
  const char* file = "";
  int line = 0;
  bool operator==(const Place&) const = default;
};
std::string to_string(const Place& place);  // "softmax.cu:31"

std::string function_at(const void* code);  // "softmax_rows", as far as debug information tells
std::string line_at(const void* code);      // "softmax.cu:31"

}  // namespace hg::emu
