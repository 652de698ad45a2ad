#include "tests/ops/cuda_parity.h"

#include <algorithm>

#include "tensor/run.h"
#include "tensor/transfer.h"
#include "tests/ops/compare.h"

namespace hg::testing {
namespace {

// Devices sum in another order than the CPU, and their exp and rsqrt are a bit coarser.
constexpr double kTolerance = 1e-4;
// Emulated threads are slow; such sizes hold full blocks, tiles and tails.
constexpr std::int64_t kMostElements = 1 << 17;

std::int64_t elements(In tensors) {
  std::int64_t n = 0;
  for (const Tensor& t : tensors) n += t.numel();
  return n;
}

}  // namespace

void check_cuda_parity(const OpUnderTest& op) {
  int checked = 0;
  for (const Sample& sample : op.samples()) {
    const Tensors in = make_inputs(sample, DType::f32);
    if (elements(in) > kMostElements) continue;
    INFO(describe(sample, in));
    auto ref_in = as_references<double>(in);
    auto ref_out = empty_references<double>(sample.op->infer(in));
    op.reference(*sample.op, ref_in, ref_out);
    Tensors device_in, out;
    for (const Tensor& t : in) device_in.push_back(to_device_as_view(t, Device::cuda));
    for (const Tensor& t : run(*sample.op, device_in)) {
      CHECK(t.device() == Device::cuda);
      out.push_back(to_device_as_view(t, Device::cpu));
    }
    check_outputs(out, ref_out, std::max(kTolerance, sample.tolerance));
    ++checked;
  }
  CHECK(checked > 0);
}

}  // namespace hg::testing
