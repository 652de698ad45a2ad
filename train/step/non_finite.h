// Says where a value that is not finite came from, once a loss has shown that there is one.
#pragma once

#include <functional>

#include "train/store/model.h"

namespace hg {

float first_non_finite(const Tensor& tensor);  // its first such element; 0 if all are finite

// Throws, naming the first of these weights or moments that is not finite.
void require_finite_update(const NamedTensors& updated);

// Runs the pass that gave such a value once more and throws, naming the first parameter, or
// else the first op and its layer, that is to blame.
[[noreturn]] void explain_non_finite(const nn::Vit& model, const std::function<void()>& pass);

}  // namespace hg
