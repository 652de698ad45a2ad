// Where calls of one op in one scope and phase are booked.
#pragma once

#include <array>

#include "energy/books/activity.h"
#include "tensor/observer.h"

namespace hg::energy {

struct Site {
  const ScopePath* scope = nullptr;
  const char* op = nullptr;
  Phase phase{};
  std::uint32_t parts = 1;  // rows of one call
  std::array<RowId, 8> rows{};
};

}  // namespace hg::energy
