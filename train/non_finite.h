// Says where a value that is not finite came from, once a loss has shown that there is one.
#pragma once

#include <functional>

#include "nn/vit.h"

namespace hg {

// Throws, naming the first parameter that is not finite.
void require_finite_weights(const nn::Vit& model);

// Runs the forward pass that gave such a loss once more and throws, naming the first parameter, or
// else the first op and its layer, that is to blame.
[[noreturn]] void explain_non_finite(const nn::Vit& model, const std::function<void()>& forward);

}  // namespace hg
