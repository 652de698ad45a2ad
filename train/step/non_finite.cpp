#include "train/step/non_finite.h"

#include <algorithm>
#include <cmath>

#include "tensor/observer.h"
#include "tensor/transfer.h"

namespace hg {

float first_non_finite(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32) return 0;
  const Tensor t = on_host(tensor);
  const float* const begin = t.data<float>();
  const float* const end = begin + t.numel();
  const float* const found = std::find_if_not(begin, end, [](float x) { return std::isfinite(x); });
  return found == end ? 0 : *found;
}

namespace {

class FiniteCheck final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    if (call.phase == Phase::data) return;  // a loader's, of another batch
    for (const Tensor& t : call.out) {
      if (t.dtype() != DType::f32 || !t.contiguous()) continue;
      const float bad = first_non_finite(t);
      require(std::isfinite(bad), "train",
              "the loss or gradient is not finite: it became {} in {}, layer {}", bad,
              call.op.name(), call.scope->path.empty() ? "(top)" : call.scope->path);
    }
  }
};

}  // namespace

void require_finite_update(const NamedTensors& updated) {
  for (const auto& [name, tensor] : updated) {
    const float bad = first_non_finite(tensor);
    require(std::isfinite(bad), "train", "{} is not finite: it became {} in the optimizer's update",
            name, bad);
  }
}

void explain_non_finite(const nn::Vit& model, const std::function<void()>& pass) {
  require_finite_update(weights_of(model));
  FiniteCheck check;
  const ObserverGuard guard(check);
  pass();
  fail("train", "the loss or gradient is not finite, but no single op showed it");
}

}  // namespace hg
