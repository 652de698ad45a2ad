#include "tools/hgprof/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"

namespace hg::prof {
namespace {

using energy::LedgerRow;
using energy::RowGroup;

constexpr int kLabel = 44;

bool before(const RowGroup& a, const RowGroup& b, Sort sort) {
  if (sort == Sort::energy) return a.sum.energy_uj > b.sum.energy_uj;
  if (sort == Sort::time) return a.sum.seconds > b.sum.seconds;
  if (sort == Sort::flops) return a.sum.flops > b.sum.flops;
  return a.name < b.name;
}

void sort_groups(std::vector<RowGroup>& groups, Sort sort) {
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const RowGroup& a, const RowGroup& b) { return before(a, b, sort); });
  for (RowGroup& g : groups) sort_groups(g.inner, sort);
}

// blocks.3.attn: one group for each step down; the model's own ops are in "(model)".
void add_to_tree(RowGroup& root, const LedgerRow& row) {
  std::vector<std::string_view> levels = energy::levels_of(row.label);
  if (levels.empty()) levels = {"(model)"};
  root.add(row, levels);
}

std::string flat_label(const energy::RowLabel& l, By by) {
  if (by == By::op) return l.op;
  if (by == By::phase) return l.phase;
  return fmt::format("{:<9} {}{}{}", l.phase, l.layer, l.layer.empty() ? "" : ".", l.op);
}

void print(const std::vector<RowGroup>& groups, std::size_t depth, std::int64_t total,
           std::string& text) {
  for (const RowGroup& g : groups) {
    text += table_line(std::string(2 * depth, ' ') + g.name, g.sum, total);
    print(g.inner, depth + 1, total, text);
  }
}

std::string ratio(double a, double b, double scale) {
  return b > 0 ? fmt::format("{:.1f}", a / b * scale) : "-";
}

}  // namespace

By by_of(const std::string& name) {
  if (name.empty()) return By::all;
  const std::optional<By> by = enum_value<By>(name);
  usage_require(by && by != By::all, "--by", "\"{}\", expected layer, op or phase", name);
  return *by;
}

Sort sort_of(const std::string& name) {
  const std::optional<Sort> sort = enum_value<Sort>(name);
  usage_require(sort.has_value(), "--sort", "\"{}\", expected energy, time, flops or name", name);
  return *sort;
}

std::string table_line(const std::string& label, const LedgerRow& r, std::int64_t total_uj) {
  const auto uj = static_cast<double>(r.energy_uj), flops = static_cast<double>(r.flops);
  return fmt::format(
      "{:<{}} {:>10.4f} {:>10.4f} {:>10.4f} {:>6} {:>10.4f} {:>9.3f} {:>9.3f} {:>10.3f} {:>7} "
      "{:>9}\n",
      label, kLabel, r.joules().value, r.joules().low, r.joules().high,
      ratio(uj, static_cast<double>(total_uj), 100), static_cast<double>(r.static_uj) * 1e-6,
      r.seconds * 1e3, flops * 1e-9, static_cast<double>(r.bytes) * 1e-6,
      ratio(flops, r.seconds, 1e-9), ratio(uj, flops, 1e6));
}

std::string table(std::span<const LedgerRow> rows, By by, Sort sort, std::int64_t total_uj) {
  RowGroup root{""};
  for (const LedgerRow& row : rows) {
    if (!row.is_op()) continue;
    if (by == By::layer)
      add_to_tree(root, row);
    else
      root.child(flat_label(row.label, by)).sum.add(row);
  }
  sort_groups(root.inner, sort);
  std::string text =
      fmt::format("{:<{}} {:>10} {:>10} {:>10} {:>6} {:>10} {:>9} {:>9} {:>10} {:>7} {:>9}\n",
                  by == By::all ? "phase     layer.op" : "", kLabel, "J", "low", "high", "%",
                  "static J", "ms", "GFLOP", "MB", "GF/s", "pJ/FLOP");
  print(root.inner, 0, total_uj, text);
  return text;
}

}  // namespace hg::prof
