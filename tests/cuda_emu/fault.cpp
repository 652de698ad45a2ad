#include "tests/cuda_emu/fault.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

namespace hg::emu {
namespace {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The two lines of addr2line on an address of this program: function and file:line.
std::pair<std::string, std::string> look_up(const void* code) {
  Dl_info info{};
  if (!dladdr(code, &info) || !info.dli_fname) return {"?", "?"};
  const auto offset =
      reinterpret_cast<std::uintptr_t>(code) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  const std::string command =
      fmt::format("addr2line -f -C -e '{}' {:#x} 2>/dev/null", info.dli_fname, offset);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string lines[2] = {"?", "?"};
  char text[4096];
  for (std::string& line : lines)
    if (pipe && std::fgets(text, sizeof text, pipe.get())) line = text;
  for (std::string& line : lines)
    while (!line.empty() && line.back() == '\n') line.pop_back();
  return {lines[0], lines[1]};
}

}  // namespace

std::string to_string(const Place& place) {
  return fmt::format("{}:{}", file_name(place.file), place.line);
}

std::string function_at(const void* code) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  std::string name = look_up(code).first;
  for (std::size_t at; (at = name.find(kUnnamed)) != std::string::npos;)
    name.erase(at, kUnnamed.size());
  name = name.substr(0, name.find('('));
  const auto scope = name.rfind("::", name.find('<'));
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

std::string line_at(const void* code) {
  const std::string line = file_name(look_up(code).second);
  return line.substr(0, line.find(" (discriminator"));
}

}  // namespace hg::emu
