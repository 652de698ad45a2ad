// Parsers under libFuzzer. Each takes an input and may throw hg::Error, of one line, and nothing
// else; what it accepts, it must read again as the same after it was written. HG_PARSER(name), at
// the beginning of a line, puts take_name and seeds_of_name to use; CMake finds it there as well.
#pragma once

#include <string>
#include <vector>

namespace hg::fuzz {

using Inputs = std::vector<std::string>;

struct Parser {
  const char* name;
  void (*take)(const std::string& input);
  Inputs (*seeds)();  // inputs to begin with
};

struct Registration {
  explicit Registration(const Parser& parser);
};
#define HG_PARSER(name) \
  const Registration name##_registration({#name, take_##name, seeds_of_##name});

// Ends the program unless it holds: a finding.
void must(bool holds, const char* what);

// f(), where an error is a finding as well.
template <class F>
auto surely(F&& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    must(false, e.what());
    throw;
  }
}

// A file in memory that holds the input, until the next one. Others in a folder for the whole run.
std::string file_with(const std::string& input);
const std::string& working_folder();
std::string put_file(const std::string& name, const std::string& contents);  // its path
std::string file_contents(const std::string& path);

}  // namespace hg::fuzz
