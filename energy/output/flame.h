// A flame graph of joules as HTML: layers above, ops below, widths in proportion.
#pragma once

#include <span>
#include <string>

#include "energy/books/ledger.h"

namespace hg::energy {

// <div class="flame"> with an <i> for each frame: its class "f0" .. "f5" is for colours, its title
// has joules, interval, share and kind. Above stand a field for searching and a button that ends
// zooming, both for the page's script. `unattributed` and `profiler` are frames of their own.
std::string flame_html(std::span<const LedgerRow> rows);

}  // namespace hg::energy
