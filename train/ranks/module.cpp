#include "train/ranks/module.h"

#include <dlfcn.h>

#include <filesystem>

#include "tensor/base/usage_error.h"

namespace hg {
namespace {

namespace fs = std::filesystem;

// Empty: there is none.
std::string path_of(const Module& module) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder, folder / ".." / HG_MODULE_FOLDER})
    if (fs::is_regular_file(place / module.file, error)) return (place / module.file).string();
  return "";
}

}  // namespace

void* function_of(const Module& module, const std::string& who) {
  const std::string path = path_of(module);
  usage_require(!path.empty(), who,
                "this program was built without {} (no {} beside it; CMake's {})", module.library,
                module.file, module.option);
  // Libraries of MPI look each other's names up.
  void* const loaded = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const char* const fault = loaded ? nullptr : ::dlerror();
  require(loaded != nullptr, who, "cannot load {}: install {}; {}", module.file, module.library,
          fault ? fault : "no reason given");
  void* const function = ::dlsym(loaded, module.function);
  require(function != nullptr, path, "has no {}", module.function);
  return function;
}

}  // namespace hg
