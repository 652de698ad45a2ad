// Parts of a program that need a library of others, such as MPI: modules, loaded when they are
// wanted. Programs start without them, and run where that library is not installed.
#pragma once

#include <string>

namespace hg {

struct Module {
  const char* file;      // beside the program, or where modules are installed
  const char* function;  // in it, that makes what it is for
  const char* option;    // of CMake, that a build without the module lacks
  const char* library;   // that it needs
};

// The function of a module that is loaded now. Throws UsageError of `who` where the build has no
// such module, and Error where it cannot be loaded.
void* function_of(const Module& module, const std::string& who);

}  // namespace hg
