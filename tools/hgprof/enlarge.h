// Samples of ops are small, for tests. A profile wants them as large as a layer of a model.
#pragma once

#include "tensor/sample.h"

namespace hg::prof {

// The largest of the samples, with sizes doubled, wherever the op accepts it, until inputs and
// outputs take about `bytes`. Inputs that are transposed views stay as they are.
Sample enlarged(const Samples& samples, std::uint64_t bytes);

}  // namespace hg::prof
