// The rows of the books, by phase, layer and op. A leaf scope (a linear layer, a norm) is one row.
// Any other op is a row by its own name, or a row for each of its parts if it is fused. A gradient
// has the name of its forward op.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "energy/books/attribution.h"
#include "tensor/observer.h"

namespace hg::energy {

struct RowLabel {
  std::string phase, layer, op;
  std::string host{};  // of a run on several; else empty
  auto operator<=>(const RowLabel&) const = default;
};

// blocks, 3 and attn of a row of blocks.3.attn
std::vector<std::string_view> levels_of(const RowLabel& label);

// Whether what the row counts ran in the scope `path`, or in one inside it.
bool is_within(const RowLabel& label, std::string_view path);

// The op column of a call; `part` is "" for the whole op.
std::string_view row_op(const ScopePath& scope, std::string_view op, std::string_view part);

// Rows by label, in order of first appearance, after `unattributed` and `profiler`. Any thread may
// ask.
class RowTable {
 public:
  RowTable();
  RowId find_or_add(const RowLabel& label);
  RowLabel label(RowId row) const;

 private:
  mutable std::mutex mutex_;
  std::map<RowLabel, RowId> ids_;
  std::deque<RowLabel> labels_;
};

}  // namespace hg::energy
