#include "tools/hgprof/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/usage_error.h"

namespace hg::prof {
namespace {

using energy::LedgerRow;

constexpr int kLabel = 44;

// Rows that share a label, with the rows inside.
struct Group {
  std::string label;
  LedgerRow sum;
  std::vector<Group> inner;

  Group& child(const std::string& wanted) {
    for (Group& g : inner)
      if (g.label == wanted) return g;
    return inner.emplace_back(Group{wanted, {}, {}});
  }
};

bool before(const Group& a, const Group& b, Sort sort) {
  switch (sort) {
    case Sort::energy:
      return a.sum.energy_uj > b.sum.energy_uj;
    case Sort::time:
      return a.sum.seconds > b.sum.seconds;
    case Sort::flops:
      return a.sum.flops > b.sum.flops;
    case Sort::name:
      return a.label < b.label;
  }
  return false;
}

void sort_groups(std::vector<Group>& groups, Sort sort) {
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const Group& a, const Group& b) { return before(a, b, sort); });
  for (Group& g : groups) sort_groups(g.inner, sort);
}

// blocks.3.attn: one group for each step down; the model's own ops are in "(model)".
void add_to_tree(Group& root, const LedgerRow& row) {
  Group* at = &root;
  std::vector<std::string_view> levels = energy::levels_of(row.label);
  if (levels.empty()) levels = {"(model)"};
  for (const std::string_view level : levels) {
    at = &at->child(std::string(level));
    at->sum.add(row);
  }
  at->child(row.label.op).sum.add(row);
}

std::string flat_label(const energy::RowLabel& l, By by) {
  if (by == By::op) return l.op;
  if (by == By::phase) return l.phase;
  return fmt::format("{:<9} {}{}{}", l.phase, l.layer, l.layer.empty() ? "" : ".", l.op);
}

void print(const std::vector<Group>& groups, std::size_t depth, std::int64_t total,
           std::string& text) {
  for (const Group& g : groups) {
    text += table_line(std::string(2 * depth, ' ') + g.label, g.sum, total);
    print(g.inner, depth + 1, total, text);
  }
}

std::string ratio(double a, double b, double scale) {
  return b > 0 ? fmt::format("{:.1f}", a / b * scale) : "-";
}

}  // namespace

By by_of(const std::string& name) {
  if (name.empty()) return By::all;
  if (name == "layer") return By::layer;
  if (name == "op") return By::op;
  if (name == "phase") return By::phase;
  usage_fail("--by", "\"{}\", expected layer, op or phase", name);
}

Sort sort_of(const std::string& name) {
  if (name == "energy") return Sort::energy;
  if (name == "time") return Sort::time;
  if (name == "flops") return Sort::flops;
  if (name == "name") return Sort::name;
  usage_fail("--sort", "\"{}\", expected energy, time, flops or name", name);
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
  Group root;
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
