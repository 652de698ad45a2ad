// Kernels with a planted fault each, and kernels without, for the tests of the emulator itself.
#pragma once

#include <string>
#include <vector>

namespace hg::emu {

enum Build : unsigned { plain = 1, address = 2, race = 4, every = 7 };

struct Planted {
  const char* name;    // of the kernel, which reports must contain
  unsigned caught_by;  // builds that must report it, whatever the order of threads
  const char* words;   // in the report of the plain and race builds
  void (*run)();
};
const std::vector<Planted>& planted_faults();

struct Correct {
  const char* name;
  bool (*run)();  // whether the results are right
};
const std::vector<Correct>& correct_kernels();

}  // namespace hg::emu
