#include <fmt/format.h>

#include "tensor/base/columns.h"
#include "train/experiment/results.h"

namespace hg::experiment {
namespace {

using Row = std::vector<std::string>;

std::string mean_and_sd(const statistics::ArmSummary& s, int decimals) {
  if (!s.sd) return fmt::format("{:.{}f}", s.mean, decimals);
  return fmt::format("{:.{}f} +- {:.{}f}", s.mean, decimals, *s.sd, decimals);
}

std::string p_figure(double p) { return p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p); }

const Row kComparisonColumns{"saving % (95 %)", "FLOPs saved %", "p paired t", "p Wilcoxon",
                             "p Holm",          "A12",           "F1 points",  "p TOST"};

Row comparison_cells(const Analysis& a, const ArmResult& arm) {
  const Contrast *energy = a.contrast(arm.name, Metric::energy_j),
                 *f1 = a.contrast(arm.name, Metric::micro_f1);
  if (!energy || !f1) return Row(kComparisonColumns.size(), "-");
  const statistics::Comparison& c = energy->comparison;
  std::string saving = c.saving_percent ? fmt::format("{:.1f}", c.saving_percent->value) : "-";
  if (c.saving_percent && c.saving_percent->interval)
    saving += fmt::format(" ({:.1f} to {:.1f})", c.saving_percent->interval->low,
                          c.saving_percent->interval->high);
  const auto& same = f1->comparison.equivalence;
  return {saving,
          arm.flops_saving ? fmt::format("{:.1f}", arm.flops_saving->percent) : "-",
          c.paired_t ? p_figure(c.paired_t->p) : "-",
          p_figure(c.wilcoxon.p),
          p_figure(energy->p_holm),
          fmt::format("{:.2f}", c.a12),
          fmt::format("{:+.2f}", 100 * (f1->comparison.b.mean - f1->comparison.a.mean)),
          same ? p_figure(same->p) : "-"};
}

std::string target_cell(const ArmResult& arm) {
  const ToTarget& t = arm.to_target;
  std::string text = fmt::format("{}/{}", t.reached, arm.runs.size());
  if (t.mean_epochs)
    text += fmt::format(", {:.1f} ep, {:.4g} J, {:.4g} GFLOP", *t.mean_epochs, *t.mean_energy_j,
                        *t.mean_flops * 1e-9);
  return text;
}

}  // namespace

std::string to_table(const Results& r, std::size_t columns) {
  const Analysis& a = r.analysis;
  Row head{"arm", "runs", "energy J", "GFLOP", "s", "micro F1"};
  head.insert(head.end(), kComparisonColumns.begin(), kComparisonColumns.end());
  head.push_back("to target");
  TextTable table(head);
  for (const ArmResult& arm : a.arms) {
    Row row{arm.name,
            std::to_string(arm.runs.size()),
            mean_and_sd(*arm.summary(Metric::energy_j), 1),
            fmt::format("{:.4g}", arm.mean_flops * 1e-9),
            fmt::format("{:.1f}", arm.summary(Metric::seconds)->mean),
            mean_and_sd(*arm.summary(Metric::micro_f1), 4)};
    const Row compared = comparison_cells(a, arm);
    row.insert(row.end(), compared.begin(), compared.end());
    row.push_back(target_cell(arm));
    table.add(row);
  }
  std::string text = r.plan.question + "\n\n", after;
  if (!a.arms.empty()) {
    const RunFigures& run = a.arms[0].runs[0];
    after = fmt::format("\nEnergy {}: {}. {}.\n", run.energy_kind, run.energy_source, r.machine);
  }
  if (a.target) after += fmt::format("Target micro F1 {:.4f}: {}.\n", a.target->f1, a.target->rule);
  after += fmt::format("\n{}\n", r.answer.headline);
  for (const ArmAnswer& arm : r.answer.arms) after += fmt::format("- {}: {}\n", arm.arm, arm.text);
  if (!r.answer.goal.empty()) after += r.answer.goal + "\n";
  for (const std::string& caveat : r.answer.caveats) after += caveat + "\n";
  return folded_lines(text, columns, 0) + (a.arms.empty() ? "" : table.text(columns)) +
         folded_lines(after, columns, 2);
}

}  // namespace hg::experiment
