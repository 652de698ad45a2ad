// A profile as one self-contained HTML page.
#include <fmt/format.h>

#include "energy/output/flame.h"
#include "tensor/base/text.h"
#include "tools/hgprof/table.h"

namespace hg::prof {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; padding: 0 1rem; max-width: 75rem; }
pre { white-space: pre-wrap; }
.flame { width: 100%; height: auto; font: 12px ui-monospace, monospace; }
.flame text { fill: #111; pointer-events: none; }
.f0 { fill: #c9d6df; } .f1 { fill: #9fd3c7; } .f2 { fill: #f6c978; }
.f3 { fill: #f2a07b; } .f4 { fill: #b8c5f2; } .f5 { fill: #e6b3d3; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .5rem; border-bottom: 1px solid var(--line); text-align: right; }
th, td { white-space: nowrap; }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }
)";

std::string row_html(const energy::LedgerRow& r, std::int64_t total) {
  const auto uj = static_cast<double>(r.energy_uj);
  const auto per = [](double a, double b, double scale) {
    return b > 0 ? fmt::format("{:.1f}", a / b * scale) : std::string("-");
  };
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.4f}</td><td>{:.4f} - {:.4f}</td>"
      "<td>{}</td><td>{:.4f}</td><td>{:.2f}</td><td>{:.3f}</td><td>{:.2f}</td><td>{}</td>"
      "<td>{}</td><td>{}</td></tr>\n",
      escape_html(r.label.phase), escape_html(r.label.layer), escape_html(r.label.op), r.calls,
      r.joules().value, r.joules().low, r.joules().high, per(uj, static_cast<double>(total), 100),
      static_cast<double>(r.static_uj) * 1e-6, r.seconds * 1e3, static_cast<double>(r.flops) * 1e-9,
      static_cast<double>(r.bytes) * 1e-6, per(static_cast<double>(r.flops), r.seconds, 1e-9),
      per(uj, static_cast<double>(r.flops), 1e6), energy::to_string(r.kind));
}

}  // namespace

std::string page(const std::string& title, const std::string& provenance,
                 const energy::Ledger& ledger) {
  std::string rows;
  for (const energy::LedgerRow& row : ledger.rows) rows += row_html(row, ledger.energy_uj);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{1}</style></head>"
      "<body><h1>{0}</h1><pre>{2}</pre><h2>Joules by layer and op: {3:.4f} J ({4:.4f} to {5:.4f}, "
      "{6})</h2>\n{7}<h2>Rows</h2><div class=\"wide\"><table><thead><tr><th>phase</th>"
      "<th>layer</th><th>op</th><th>calls</th><th>J</th><th>95 %</th><th>share %</th>"
      "<th>static J</th><th>ms</th><th>GFLOP</th><th>MB</th><th>GF/s</th><th>pJ/FLOP</th>"
      "<th>kind</th></tr></thead><tbody>\n{8}</tbody></table></div></body></html>\n",
      escape_html(title), kStyle, escape_html(provenance), ledger.joules().value,
      ledger.joules().low, ledger.joules().high, energy::to_string(ledger.kind),
      energy::flame_svg(ledger.rows), rows);
}

}  // namespace hg::prof
