// A profile as one self-contained HTML page: flame graph of joules and the whole table.
#pragma once

#include <string>

#include "energy/books/ledger.h"

namespace hg::prof {

std::string page(const std::string& title, const std::string& provenance,
                 const energy::Ledger& ledger);

}  // namespace hg::prof
