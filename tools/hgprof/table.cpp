#include "tools/hgprof/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"

namespace hg::prof {
namespace {

using energy::LedgerRow;
using energy::RowGroup;

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
           TextTable& table) {
  for (const RowGroup& g : groups) {
    add_line(table, std::string(2 * depth, ' ') + g.name, g.sum, total);
    print(g.inner, depth + 1, total, table);
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

void add_line(TextTable& table, const std::string& label, const LedgerRow& r,
              std::int64_t total_uj) {
  const auto uj = static_cast<double>(r.energy_uj), flops = static_cast<double>(r.flops);
  const auto figure = [](double value, int decimals) {
    return fmt::format("{:.{}f}", value, decimals);
  };
  table.add({label, figure(r.joules().value, 4), figure(r.joules().low, 4),
             figure(r.joules().high, 4), ratio(uj, static_cast<double>(total_uj), 100),
             figure(static_cast<double>(r.static_uj) * 1e-6, 4), figure(r.seconds * 1e3, 3),
             figure(flops * 1e-9, 3), figure(static_cast<double>(r.bytes) * 1e-6, 3),
             ratio(flops, r.seconds, 1e-9), ratio(uj, flops, 1e6)});
}

TextTable table(std::span<const LedgerRow> rows, By by, Sort sort, std::int64_t total_uj) {
  RowGroup root{""};
  for (const LedgerRow& row : rows) {
    if (!row.is_op()) continue;
    if (by == By::layer)
      add_to_tree(root, row);
    else
      root.child(flat_label(row.label, by)).sum.add(row);
  }
  sort_groups(root.inner, sort);
  TextTable table({by == By::all ? "phase     layer.op" : "", "J", "low", "high", "%", "static J",
                   "ms", "GFLOP", "MB", "GF/s", "pJ/FLOP"});
  print(root.inner, 0, total_uj, table);
  return table;
}

}  // namespace hg::prof
