// Profiles as text, with rows by layer, op and phase or summed over some of them, and as a page.
#pragma once

#include <span>
#include <string>

#include "energy/books/ledger.h"
#include "tensor/base/columns.h"

namespace hg::prof {

enum class By { all, layer, op, phase };
enum class Sort { energy, time, flops, name };
By by_of(const std::string& name);  // "" is all
Sort sort_of(const std::string& name);

// With the lines of the op rows; `layer` is a tree whose lines hold all that is inside. Shares are
// of `total_uj`. Sums of intervals are intervals of the sums, on the safe side.
TextTable table(std::span<const energy::LedgerRow> rows, By by, Sort sort, std::int64_t total_uj);

// One line more, for rows that belong to no op.
void add_line(TextTable& table, const std::string& label, const energy::LedgerRow& row,
              std::int64_t total_uj);

// One self-contained HTML page on so many steps: flame graph of joules and the whole table.
std::string page(const std::string& title, const std::string& provenance,
                 const energy::Ledger& ledger, std::int64_t steps);

}  // namespace hg::prof
