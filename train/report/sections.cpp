#include "train/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "energy/output/flame.h"
#include "tensor/base/text.h"
#include "train/report/chart.h"
#include "train/report/html.h"
#include "train/run/progress.h"

namespace hg::report {
namespace {

using energy::escape_html;
using energy::LedgerRow;

constexpr std::size_t kTopRows = 40;

std::string card(const std::string& name, const std::string& value, const std::string& interval,
                 const std::string& source) {
  return fmt::format(
      "<li><span class=\"name\">{}</span><b>{}</b><span>{}</span><span>{}</span></li>\n",
      escape_html(name), escape_html(value), escape_html(interval), escape_html(source));
}

std::string between(const Interval& i, const char* unit) {
  return fmt::format("{} to {} (95 %)", with_prefix(i.low, unit), with_prefix(i.high, unit));
}

Interval scaled(const Interval& i, double factor) {
  return {i.value * factor, i.low * factor, i.high * factor};
}

std::string f1_card(const RunData& run) {
  const std::optional<double> f1 = run.final_f1();
  if (!f1) return card("Micro F1", "none", "not evaluated yet", "");
  const std::string value = fmt::format("{:.4f}", *f1);
  if (!run.test_images) return card("Micro F1", value, "", "last evaluation");
  const Interval i = share_of(*f1, *run.test_images);
  return card("Micro F1", value, fmt::format("{:.4f} to {:.4f} (95 %)", i.low, i.high),
              fmt::format("measured on {:.0f} test images", *run.test_images));
}

std::string co2_card(const RunData& run) {
  if (!run.co2_g || run.joules.value <= 0) return "";
  const Interval g = scaled(run.joules, *run.co2_g / run.joules.value);
  return card("CO2", with_prefix(g.value, "g"), between(g, "g"),
              fmt::format("{}, {} g/kWh, PUE {} ({})", run.country, run.g_per_kwh.value_or(0),
                          run.pue.value_or(1), run.carbon_source));
}

std::string efficiency_cards(const RunData& run) {
  std::string html;
  const std::optional<double> f1 = run.final_f1();
  if (f1 && *f1 > 0) {
    const Interval per = scaled(run.joules, 1 / *f1);
    html += card("Energy per F1", with_prefix(per.value, "J"), between(per, "J"), run.kind);
  }
  if (run.images && *run.images > 0) {
    const Interval per = scaled(run.joules, 1 / *run.images);
    html += card("Energy per training image", with_prefix(per.value, "J"), between(per, "J"),
                 fmt::format("{}; {:.0f} images, evaluation included", run.kind, *run.images));
  }
  return html;
}

struct Sum {
  std::int64_t uj = 0, static_uj = 0, low_uj = 0, high_uj = 0;
  double seconds = 0, flops = 0;
  energy::Kind kind = energy::Kind::measured;
  void add(const LedgerRow& row) {
    uj += row.energy_uj;
    static_uj += row.static_uj;
    low_uj += row.low_uj;
    high_uj += row.high_uj;
    seconds += row.seconds;
    flops += static_cast<double>(row.flops);
    kind = std::max(kind, row.kind);
  }
};

const std::vector<std::string>& phase_names() {
  static const std::vector<std::string> names{"forward", "backward",     "optimizer", "data",
                                              "eval",    "unattributed", "profiler"};
  return names;
}

// In the order of phase_names().
std::vector<Sum> phase_sums(const RunData& run) {
  std::vector<Sum> sums(phase_names().size());
  for (const LedgerRow& row : run.rows) {
    const auto found = std::find(phase_names().begin(), phase_names().end(), row.label.phase);
    if (found != phase_names().end())
      sums[static_cast<std::size_t>(found - phase_names().begin())].add(row);
  }
  return sums;
}

double joules(std::int64_t uj) { return static_cast<double>(uj) * 1e-6; }

std::string phase_bar(const RunData& run, const std::vector<Sum>& sums) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double share = 100 * static_cast<double>(sums[i].uj) / std::max(1.0, run.total_uj());
    parts.push_back({phase_names()[i],
                     fmt::format("{}: {}, {:.1f} %", phase_names()[i],
                                 joules_text({joules(sums[i].uj), joules(sums[i].low_uj),
                                              joules(sums[i].high_uj)}),
                                 share),
                     static_cast<double>(sums[i].uj), i});
  }
  return stacked_bar("Joules by phase", parts);
}

// So many decimals that the largest value of a column shows five digits, and columns line up.
int decimals_for(double largest) {
  return largest > 0 ? std::clamp(4 - static_cast<int>(std::floor(std::log10(largest))), 0, 6) : 0;
}
struct Decimals {
  int joules = 0, gflop = 0;
  void widen(const Sum& s) {
    most_j_ = std::max(most_j_, joules_of(s.uj)),
    most_gflop_ = std::max(most_gflop_, s.flops * 1e-9);
    joules = decimals_for(most_j_), gflop = decimals_for(most_gflop_);
  }

 private:
  static double joules_of(std::int64_t uj) { return static_cast<double>(uj) * 1e-6; }
  double most_j_ = 0, most_gflop_ = 0;
};

// Energy, interval, share, static part, time and FLOPs: the columns that tables share.
std::string sum_cells(const Sum& s, double total_uj, const Decimals& d) {
  const double uj = static_cast<double>(s.uj), share = total_uj > 0 ? 100 * uj / total_uj : 0;
  const auto text = [&](std::int64_t e) { return fmt::format("{:.{}f}", joules(e), d.joules); };
  return cell(text(s.uj), uj) +
         cell(text(s.low_uj) + " to " + text(s.high_uj),
              static_cast<double>(s.high_uj - s.low_uj)) +
         cell(fmt::format("{:.1f}", share), share) +
         cell(text(s.static_uj), static_cast<double>(s.static_uj)) +
         cell(fmt::format("{:.3f}", s.seconds), s.seconds) +
         cell(fmt::format("{:.{}f}", s.flops * 1e-9, d.gflop), s.flops);
}
const std::vector<std::string> kSumColumns{"J", "95 % interval", "share %", "static J",
                                           "s", "GFLOP"};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

std::string cards(const RunData& run) {
  std::string html = "<ul class=\"cards\">\n";
  html += card("Energy", with_prefix(run.joules.value, "J"), between(run.joules, "J"), run.kind);
  html += f1_card(run) + co2_card(run) + efficiency_cards(run);
  if (run.seconds)
    html += card("Training time", format_duration(*run.seconds), "", "measured, wall clock");
  if (run.flops)
    html += card("FLOPs", with_prefix(*run.flops, "FLOP"), "", "counted exactly, evaluation too");
  return html + "</ul>\n";
}

std::string phases(const RunData& run) {
  const std::vector<Sum> sums = phase_sums(run);
  std::string body = legend(phase_names()) + phase_bar(run, sums);
  body += table_head({"phase"}, kSumColumns + std::vector<std::string>{"kind"});
  Decimals decimals;
  for (const Sum& s : sums) decimals.widen(s);
  for (std::size_t i = 0; i < sums.size(); ++i)
    body += "<tr>" + label_cell(phase_names()[i]) + sum_cells(sums[i], run.total_uj(), decimals) +
            cell(std::string(energy::to_string(sums[i].kind)), 0) + "</tr>\n";
  body += kTableEnd;
  const auto uj = [&](std::size_t i) { return static_cast<double>(sums[i].uj); };
  const std::string ratio =
      uj(0) > 0 ? fmt::format("Backward takes {:.2f} times the energy of forward. ", uj(1) / uj(0))
                : "";
  return figure("Joules by phase", body,
                ratio + fmt::format("The rows sum to the meter exactly. Static: what the machine "
                                    "would have drawn idle. {}.",
                                    run.provenance()));
}

std::string prediction(const RunData& run) {
  if (!run.prediction) return "";
  const Prediction& p = *run.prediction;
  std::vector<Bar> bars{{"predicted", joules_text(p.joules), p.joules, 5}};
  std::string verdict = "The run has not finished.";
  if (p.actual_j) {
    bars.push_back(
        {"actual", with_prefix(*p.actual_j, "J"), {*p.actual_j, *p.actual_j, *p.actual_j}, 0});
    verdict = fmt::format(
        "Off by {:+.1f} %, {} its 95 % interval.", 100 * (p.joules.value / *p.actual_j - 1),
        p.joules.low <= *p.actual_j && *p.actual_j <= p.joules.high ? "inside" : "outside");
  }
  return figure(
      "Energy as predicted and as it was", bar_chart("Predicted and actual energy", bars),
      fmt::format("Foretold after step {:.0f}, of what the meter would say at the end. {} {}.",
                  p.step, verdict, run.provenance()));
}

std::string flame(const RunData& run) {
  return figure(
      "Joules by layer and op", "<div class=\"wide\">" + energy::flame_svg(run.rows) + "</div>\n",
      fmt::format("Width is energy; layers above, their ops below, all phases together. {}. "
                  "Point at a frame for its joules and interval. {}.",
                  relative_bounds(run), run.provenance()));
}

std::string top_rows(const RunData& run) {
  std::vector<const LedgerRow*> rows;
  for (const LedgerRow& row : run.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const LedgerRow* a, const LedgerRow* b) {
    return a->energy_uj > b->energy_uj;
  });
  rows.resize(std::min(rows.size(), kTopRows));
  std::string body = table_head({"phase", "layer", "op"},
                                kSumColumns + std::vector<std::string>{"GF/s", "pJ/FLOP", "kind"});
  std::vector<Sum> sums(rows.size());
  Decimals decimals;
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i].add(*rows[i]), decimals.widen(sums[i]);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LedgerRow* row = rows[i];
    const Sum& s = sums[i];
    const double rate = s.seconds > 0 ? s.flops / s.seconds * 1e-9 : 0;
    const double per_flop = s.flops > 0 ? static_cast<double>(s.uj) * 1e6 / s.flops : 0;
    body += "<tr>" + label_cell(row->label.phase) + label_cell(row->label.layer) +
            label_cell(row->label.op) + sum_cells(s, run.total_uj(), decimals) +
            cell(s.flops > 0 ? fmt::format("{:.1f}", rate) : "-", rate) +
            cell(s.flops > 0 ? fmt::format("{:.1f}", per_flop) : "-", per_flop) +
            cell(std::string(energy::to_string(row->kind)), 0) + "</tr>\n";
  }
  body += kTableEnd;
  return figure(
      fmt::format("The {} rows with most energy of {}", rows.size(), run.rows.size()), body,
      fmt::format("Click a column to sort by it. ledger.csv has all rows. {}.", run.provenance()));
}

std::string comparison(const std::vector<RunData>& runs) {
  std::vector<Bar> bars;
  std::string table = table_head({"run", "status"}, {"J", "95 % interval", "micro F1", "J per F1",
                                                     "g CO2", "s", "GFLOP", "J against first"});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunData& r = runs[i];
    bars.push_back({name_among(r, runs), joules_text(r.joules), r.joules, i});
    const double f1 = r.final_f1().value_or(0), first = runs[0].joules.value;
    const double change = first > 0 ? 100 * (r.joules.value / first - 1) : 0;
    table += "<tr>" + label_cell(name_among(r, runs)) + label_cell(r.status) +
             cell(fmt::format("{:.4g}", r.joules.value), r.joules.value) +
             cell(fmt::format("{:.3g} to {:.3g}", r.joules.low, r.joules.high),
                  r.joules.high - r.joules.low) +
             cell(r.final_f1() ? fmt::format("{:.4f}", f1) : "-", f1) +
             cell(f1 > 0 ? fmt::format("{:.4g}", r.joules.value / f1) : "-",
                  f1 > 0 ? r.joules.value / f1 : 0) +
             cell(r.co2_g ? fmt::format("{:.4g}", *r.co2_g) : "-", r.co2_g.value_or(0)) +
             cell(r.seconds ? fmt::format("{:.1f}", *r.seconds) : "-", r.seconds.value_or(0)) +
             cell(r.flops ? fmt::format("{:.4g}", *r.flops * 1e-9) : "-", r.flops.value_or(0)) +
             cell(i == 0 ? "-" : fmt::format("{:+.1f} %", change), change) + "</tr>\n";
  }
  table += kTableEnd;
  std::string caption = "Whiskers: 95 % intervals.";
  for (const RunData& r : runs)
    caption += fmt::format(" {}: {}.", name_among(r, runs), r.provenance());
  std::string stacks;
  for (const RunData& r : runs)
    stacks +=
        fmt::format("<h3>{}</h3>{}", escape_html(name_among(r, runs)), phase_bar(r, phase_sums(r)));
  return figure("Energy", bar_chart("Energy of the runs", bars), caption) +
         figure("Figures", table,
                "A saving needs equal data, epochs, batch, precision and device.") +
         figure("Joules by phase", legend(phase_names()) + stacks,
                "Each bar is its whole run; intervals are in the runs' own tables below.");
}

std::string details(const RunData& run) {
  return fmt::format(
      "<details><summary>Configuration (config.toml)</summary><pre>{}</pre></details>\n",
      escape_html(run.config));
}

}  // namespace hg::report
