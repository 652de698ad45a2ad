#include "energy/books/labels.h"

#include "tensor/base/text.h"

namespace hg::energy {
namespace {

// "softmax_backward" -> "softmax"
std::string_view forward_name(std::string_view op) {
  constexpr std::string_view kBackward = "_backward";
  if (op.ends_with(kBackward)) op.remove_suffix(kBackward.size());
  return op;
}

}  // namespace

std::vector<std::string_view> levels_of(const RowLabel& label) {
  std::vector<std::string_view> levels = split(label.layer, '.');
  if (label.layer.empty()) levels.clear();
  return levels;
}

bool is_within(const RowLabel& label, std::string_view path) {
  const std::string whole = label.layer.empty() ? label.op : label.layer + '.' + label.op;
  return path.empty() || whole == path || (whole.starts_with(path) && whole[path.size()] == '.');
}

std::string_view row_op(const ScopePath& scope, std::string_view op, std::string_view part) {
  if (!scope.op.empty()) return scope.op;
  return part.empty() ? forward_name(op) : part;
}

RowTable::RowTable() {
  find_or_add({"unattributed", "", "unattributed"});
  find_or_add({"profiler", "", "profiler"});
}

RowId RowTable::find_or_add(const RowLabel& label) {
  const std::lock_guard lock(mutex_);
  if (const auto found = ids_.find(label); found != ids_.end()) return found->second;
  const auto id = static_cast<RowId>(labels_.size());
  labels_.push_back(label);  // first: no id may be left without a label, should memory run out
  ids_.emplace(label, id);
  return id;
}

RowLabel RowTable::label(RowId row) const {
  const std::lock_guard lock(mutex_);
  return labels_[row];
}

}  // namespace hg::energy
