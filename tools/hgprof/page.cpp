// A profile as one self-contained HTML page, made of the kit of hgtrain's reports.
#include <fmt/format.h>

#include <algorithm>

#include "energy/output/flame.h"
#include "tools/hgprof/table.h"
#include "train/report/html.h"

namespace hg::prof {
namespace {

using report::cell;
using report::label_cell;
using report::no_cell;

std::string per_cell(double a, double b, double scale) {
  return b > 0 ? cell(a / b * scale, 1) : no_cell();
}

std::string row_html(const energy::LedgerRow& r, std::int64_t total) {
  const auto uj = static_cast<double>(r.energy_uj), flops = static_cast<double>(r.flops);
  const Interval mj{uj * 1e-3, static_cast<double>(r.low_uj) * 1e-3,
                    static_cast<double>(r.high_uj) * 1e-3};
  return "<tr>" + label_cell(r.label.phase) + label_cell(r.label.layer) + label_cell(r.label.op) +
         cell(static_cast<double>(r.calls), 0) + cell(mj.value, 3) +
         cell(fmt::format("{:.3f} to {:.3f}", mj.low, mj.high), mj.high - mj.low) +
         per_cell(uj, static_cast<double>(total), 100) +
         cell(static_cast<double>(r.static_uj) * 1e-3, 3) + cell(r.seconds * 1e3, 2) +
         cell(flops * 1e-9, 3) + cell(static_cast<double>(r.bytes) * 1e-6, 2) +
         per_cell(flops, r.seconds, 1e-9) + per_cell(uj, flops, 1e6) + "</tr>\n";
}

std::string rows_table(const energy::Ledger& ledger) {
  std::string html = report::table_head(
      {"phase", "layer", "op"}, {"calls", "mJ", "95 % interval", "share %", "static mJ", "ms",
                                 "GFLOP", "MB", "GF/s", "pJ/FLOP"});
  std::vector<energy::LedgerRow> rows = ledger.rows;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.energy_uj > b.energy_uj; });
  for (const energy::LedgerRow& row : rows) html += row_html(row, ledger.energy_uj);
  return html + report::kTableEnd;
}

std::string profile_cards(const energy::Ledger& l, std::int64_t steps) {
  const auto n = static_cast<double>(steps);
  const Interval j = l.joules();
  const auto flops = static_cast<double>(energy::sum_of(l.rows).flops);
  std::string html = "<ul class=\"cards\">\n" +
                     report::card("Energy of a step", with_prefix(j.value / n, "J"),
                                  fmt::format("{} to {}", with_prefix(j.low / n, "J"),
                                              with_prefix(j.high / n, "J"))) +
                     report::card("Time of a step", with_prefix(l.seconds / n, "s"), "") +
                     report::card("FLOPs of a step", with_prefix(flops / n, "FLOP"), "");
  if (l.seconds > 0)
    html +=
        report::card("Power", with_prefix(j.value / l.seconds, "W"), "") +
        report::card("Speed", with_prefix(flops / l.seconds, "FLOP/s"), "") +
        report::card("Covered by ops",
                     fmt::format("{:.1f} %", 100 * l.covered_seconds() / l.seconds), "of the time");
  return html + "</ul>\n";
}

}  // namespace

std::string page(const std::string& title, const std::string& provenance,
                 const energy::Ledger& ledger, std::int64_t steps) {
  std::string html = report::document_start(title) + report::heading(1, title);
  std::string sentences;
  for (const std::string_view line : split(provenance, '\n'))
    if (!line.empty()) sentences += fmt::format("{}{}", sentences.empty() ? "" : "; ", line);
  html += report::paragraph(sentences + ".", "soft");
  html += profile_cards(ledger, steps);
  html += report::heading(2, "Where the joules went");
  html += report::figure("Joules by layer and op", energy::flame_html(ledger.rows),
                         "Width is energy; layers above, their ops below, all phases together. "
                         "Click a frame to zoom in.");
  html += report::figure(fmt::format("Rows, sums over {} steps", steps), rows_table(ledger),
                         "Click a column to sort by it. Static: what the machine would have drawn "
                         "idle.");
  return html + report::document_end();
}

}  // namespace hg::prof
