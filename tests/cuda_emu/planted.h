// Kernels with a planted fault each, and kernels without, for the tests of the emulator itself.
#pragma once

#include <string>
#include <vector>

namespace hg::emu {

enum Build : unsigned { address = 1, race = 2, every = 3 };

struct Planted {
  const char* name;    // of the kernel, which reports must contain
  unsigned caught_by;  // builds that must report it, whatever the order of threads
  const char* words;   // in the report of the build with the race detector
  void (*run)();
};
const std::vector<Planted>& planted_faults();

struct Correct {
  const char* name;
  bool (*run)();  // whether the results are right
};
const std::vector<Correct>& correct_kernels();

}  // namespace hg::emu
