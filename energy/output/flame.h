// A flame graph of joules as inline SVG: layers above, ops below, widths in proportion.
#pragma once

#include <span>
#include <string>

#include "energy/books/ledger.h"

namespace hg::energy {

// Frames have class "f0" .. "f5" for colours and a <title> with joules, share and interval; text
// takes the page's colour. `unattributed` and `profiler` are frames of their own.
std::string flame_svg(std::span<const LedgerRow> rows);

}  // namespace hg::energy
