// main() of the tests on a real device: without one they are skipped, with the reason, not passed.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tensor/cuda_device.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (const std::string reason = hg::cuda::unavailable(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return kSkipped;
  }
  return doctest::Context(argc, argv).run();
}
