// The test that the classes of every stem with a .cu get: kernels on the CUDA device, real or
// emulated, against the f64 reference. CMake writes a source per stem, as for tests/ops/generic.h.
#pragma once

#include "tests/ops/generic.h"

namespace hg::testing {

void check_cuda_parity(const OpUnderTest& op);

}  // namespace hg::testing

#define HG_CUDA_TESTS(op) \
  HG_GENERIC_TEST(op, "matches its f64 reference on CUDA", check_cuda_parity)
