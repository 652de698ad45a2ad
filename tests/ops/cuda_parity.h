// The test that every op gets beside those of tests/ops/generic.h, in the same way: kernels on the
// CUDA device, real or emulated, against the f64 reference.
#pragma once

#include "tests/ops/generic.h"

namespace hg::testing {

void check_cuda_parity(const OpUnderTest& op);

}  // namespace hg::testing

#define HG_CUDA_TESTS(op) \
  HG_GENERIC_TEST(op, "matches its f64 reference on CUDA", check_cuda_parity)
