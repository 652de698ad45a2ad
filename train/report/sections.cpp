#include "train/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "energy/output/flame.h"
#include "tensor/base/text.h"
#include "train/report/chart.h"
#include "train/report/html.h"

namespace hg::report {
namespace {

using energy::LedgerRow;

constexpr std::size_t kTopRows = 40;

std::string between(const Interval& i, const char* unit) {
  return fmt::format("{} to {}", with_prefix(i.low, unit), with_prefix(i.high, unit));
}

Interval scaled(const Interval& i, double factor) {
  return {i.value * factor, i.low * factor, i.high * factor};
}

std::string f1_card(const RunRecord& run) {
  const std::optional<double> f1 = run.final_f1();
  if (!f1) return card("Micro F1", "none", "not evaluated yet", "");
  const std::string value = fmt::format("{:.4f}", *f1);
  if (run.test_images == 0) return card("Micro F1", value, "", "last evaluation");
  const Interval i = share_of(*f1, static_cast<double>(run.test_images));
  return card("Micro F1", value, fmt::format("{:.4f} to {:.4f}", i.low, i.high),
              fmt::format("on {} test images", run.test_images));
}

std::string co2_card(const RunRecord& run) {
  if (run.co2_g <= 0 || run.energy_j.value <= 0) return "";
  const Interval g = scaled(run.energy_j, run.co2_g / run.energy_j.value);
  return card("CO2", with_prefix(g.value, "g"), between(g, "g"),
              fmt::format("{}, {:.0f} g/kWh", run.country, run.carbon_g_per_kwh));
}

std::string efficiency_cards(const RunRecord& run) {
  std::string html;
  const std::optional<double> f1 = run.final_f1();
  if (f1 && *f1 > 0) {
    const Interval per = scaled(run.energy_j, 1 / *f1);
    html += card("Energy per F1", with_prefix(per.value, "J"), between(per, "J"));
  }
  if (run.images > 0) {
    const Interval per = scaled(run.energy_j, 1 / static_cast<double>(run.images));
    html += card("Energy per training image", with_prefix(per.value, "J"), between(per, "J"),
                 fmt::format("{} images, evaluation included", run.images));
  }
  return html;
}

const std::vector<std::string>& phase_names() {
  static const std::vector<std::string> names{"forward", "backward",     "optimizer", "data",
                                              "eval",    "unattributed", "profiler"};
  return names;
}

// In the order of phase_names().
std::vector<LedgerRow> phase_sums(const RunRecord& run) {
  std::vector<LedgerRow> sums(phase_names().size(), energy::sum_of({}));
  for (const LedgerRow& row : run.rows) {
    const auto found = std::find(phase_names().begin(), phase_names().end(), row.label.phase);
    if (found != phase_names().end())
      sums[static_cast<std::size_t>(found - phase_names().begin())].add(row);
  }
  return sums;
}

std::string phase_bar(const RunRecord& run, const std::vector<LedgerRow>& sums) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto uj = static_cast<double>(sums[i].energy_uj);
    parts.push_back(
        {phase_names()[i],
         fmt::format("{}: {}, {:.1f} %", phase_names()[i], with_prefix(sums[i].joules(), "J"),
                     100 * uj / std::max(1.0, run.total_uj())),
         uj, i});
  }
  return stacked_bar("Joules by phase", parts);
}

// So many decimals that the largest value of a column shows five digits, and columns line up.
struct Decimals {
  int joules = 0, gflop = 0;

  explicit Decimals(const std::vector<LedgerRow>& rows) {
    double most_j = 0, most_gflop = 0;
    for (const LedgerRow& row : rows) {
      most_j = std::max(most_j, row.joules().value);
      most_gflop = std::max(most_gflop, static_cast<double>(row.flops) * 1e-9);
    }
    joules = decimals_for(most_j), gflop = decimals_for(most_gflop);
  }
  static int decimals_for(double most) {
    return most > 0 ? std::clamp(4 - static_cast<int>(std::floor(std::log10(most))), 0, 6) : 0;
  }
};

// Energy, interval, share, static part, time and FLOPs: the columns that tables share.
std::string sum_cells(const LedgerRow& row, double total_uj, const Decimals& d) {
  const Interval j = row.joules();
  return cell(j.value, d.joules) +
         cell(fmt::format("{:.{}f} to {:.{}f}", j.low, d.joules, j.high, d.joules),
              j.high - j.low) +
         cell(total_uj > 0 ? 100e6 * j.value / total_uj : 0, 1) +
         cell(energy::to_joules({row.static_uj}).value, d.joules) + cell(row.seconds, 3) +
         cell(static_cast<double>(row.flops) * 1e-9, d.gflop);
}
const std::vector<std::string> kSumColumns{"J", "95 % interval", "share %", "static J",
                                           "s", "GFLOP"};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

std::string cards(const RunRecord& run) {
  std::string html = "<ul class=\"cards\">\n";
  html += card("Energy", with_prefix(run.energy_j.value, "J"), between(run.energy_j, "J"),
               run.energy_kind);
  html += f1_card(run) + co2_card(run) + efficiency_cards(run);
  if (run.seconds > 0)
    html += card("Training time", format_duration(run.seconds), "", "evaluation included");
  if (run.flops > 0)
    html += card("FLOPs", with_prefix(static_cast<double>(run.flops), "FLOP"), "",
                 "counted, evaluation included");
  return html + "</ul>\n";
}

std::string phases(const RunRecord& run) {
  const std::vector<LedgerRow> sums = phase_sums(run);
  std::string body = legend(phase_names()) + phase_bar(run, sums);
  body += table_head({"phase"}, kSumColumns + std::vector<std::string>{"kind"});
  const Decimals decimals(sums);
  for (std::size_t i = 0; i < sums.size(); ++i)
    body += "<tr>" + label_cell(phase_names()[i]) + sum_cells(sums[i], run.total_uj(), decimals) +
            cell(std::string(energy::to_string(sums[i].kind)), 0.0) + "</tr>\n";
  body += kTableEnd;
  const double forward = sums[0].joules().value, backward = sums[1].joules().value;
  const std::string ratio =
      forward > 0
          ? fmt::format("Backward takes {:.2f} times the energy of forward. ", backward / forward)
          : "";
  return figure("Joules by phase", body,
                ratio +
                    "The rows sum to the meter exactly. Static: what the machine would have "
                    "drawn idle.");
}

std::string prediction(const RunRecord& run) {
  if (!run.prediction.made()) return "";
  const Interval& predicted = run.prediction.energy_j;
  std::vector<Bar> bars{{"predicted", with_prefix(predicted, "J"), predicted, 5}};
  std::string verdict = "The run has not finished.";
  if (run.status == kFinished) {
    const double actual = run.energy_j.value;
    bars.push_back({"actual", with_prefix(actual, "J"), {actual, actual, actual}, 0});
    verdict =
        fmt::format("Off by {:+.1f} %, {} its 95 % interval.", 100 * (predicted.value / actual - 1),
                    predicted.low <= actual && actual <= predicted.high ? "inside" : "outside");
  }
  return figure("Energy as predicted and as it was", bar_chart("Predicted and actual energy", bars),
                fmt::format("Predicted after step {}: what the meter would say at the end. {}",
                            run.prediction.step, verdict));
}

std::string flame(const RunRecord& run) {
  return figure("Joules by layer and op", energy::flame_html(run.rows),
                "Width is energy; layers above, their ops below, all phases together. Click a "
                "frame to zoom in.");
}

std::string top_rows(const RunRecord& run) {
  std::vector<LedgerRow> rows = run.rows;
  std::stable_sort(rows.begin(), rows.end(), [](const LedgerRow& a, const LedgerRow& b) {
    return a.energy_uj > b.energy_uj;
  });
  rows.resize(std::min(rows.size(), kTopRows));
  std::string body = table_head({"phase", "layer", "op"},
                                kSumColumns + std::vector<std::string>{"GF/s", "pJ/FLOP", "kind"});
  const Decimals decimals(rows);
  for (const LedgerRow& row : rows) {
    const auto flops = static_cast<double>(row.flops);
    body += "<tr>" + label_cell(row.label.phase) + label_cell(row.label.layer) +
            label_cell(row.label.op) + sum_cells(row, run.total_uj(), decimals);
    if (row.flops > 0)
      body += cell(row.seconds > 0 ? flops / row.seconds * 1e-9 : 0, 1) +
              cell(static_cast<double>(row.energy_uj) * 1e6 / flops, 1);
    else
      body += no_cell() + no_cell();
    body += cell(std::string(energy::to_string(row.kind)), 0.0) + "</tr>\n";
  }
  body += kTableEnd;
  return figure(fmt::format("The {} rows with most energy of {}", rows.size(), run.rows.size()),
                body, "Click a column to sort by it. ledger.csv has all rows.");
}

std::string comparison(const std::vector<RunRecord>& runs) {
  const std::vector<std::string> names = names_of(runs);
  std::vector<Bar> bars;
  std::string table = table_head({"run", "status"}, {"J", "95 % interval", "micro F1", "J per F1",
                                                     "g CO2", "s", "GFLOP", "J against first"});
  std::string stacks;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& r = runs[i];
    bars.push_back({names[i], with_prefix(r.energy_j, "J"), r.energy_j, i});
    const double first = runs[0].energy_j.value;
    const double change = first > 0 ? 100 * (r.energy_j.value / first - 1) : 0;
    const std::optional<double> f1 = r.final_f1();
    const auto four_digits = [](double value) {
      return value > 0 ? cell(fmt::format("{:.4g}", value), value) : no_cell();
    };
    table += "<tr>" + label_cell(names[i]) + label_cell(r.status) +
             cell(fmt::format("{:.4g}", r.energy_j.value), r.energy_j.value) +
             cell(fmt::format("{:.3g} to {:.3g}", r.energy_j.low, r.energy_j.high),
                  r.energy_j.high - r.energy_j.low) +
             cell(f1, 4) + four_digits(f1 && *f1 > 0 ? r.energy_j.value / *f1 : 0) +
             four_digits(r.co2_g) + (r.seconds > 0 ? cell(r.seconds, 1) : no_cell()) +
             four_digits(static_cast<double>(r.flops) * 1e-9) +
             (i == 0 ? no_cell() : cell(fmt::format("{:+.1f} %", change), change)) + "</tr>\n";
    stacks += fmt::format("<p class=\"soft stacked\">{}</p>{}", escape_html(names[i]),
                          phase_bar(r, phase_sums(r)));
  }
  table += kTableEnd;
  return figure("Figures", table,
                "A saving needs equal data, epochs, batch, precision and device.") +
         "<div class=\"charts broad\">\n" +
         figure("Energy", bar_chart("Energy of the runs", bars), "") +
         figure("Joules by phase", legend(phase_names()) + stacks, "Each bar is its whole run.") +
         "</div>\n";
}

std::string settings_that_differ(const std::vector<RunRecord>& runs) {
  std::vector<Config> configs;
  for (const RunRecord& run : runs)
    if (run.settings) configs.push_back(*run.settings);
  if (configs.size() < runs.size()) return "";
  return figure("Settings that differ", settings_table(names_of(runs), configs), "");
}

std::string settings_table(const std::vector<std::string>& names,
                           const std::vector<Config>& configs) {
  std::vector<std::vector<std::string>> rows;
  for (const DifferentKey& key : different_keys(configs)) {
    rows.push_back({key.key});
    rows.back().insert(rows.back().end(), key.values.begin(), key.values.end());
  }
  if (rows.empty()) return paragraph("None.", "none");
  std::vector<std::string> columns{"key"};
  columns.insert(columns.end(), names.begin(), names.end());
  return value_table(columns, rows);
}

std::string origin(const RunRecord& run) {
  std::string html;
  for (const Launch& l : run.launches) {
    const bool first = &l == &run.launches.front();
    html += figure(
        first ? "Start" : "Resumed",
        value_table({}, {{"time", l.started},
                         {"command", l.command},
                         {"folder", l.folder},
                         {"version", l.version},
                         {"host", l.host},
                         {"CPU", fmt::format("{}; the engine used {} of them", l.cpu, l.threads)},
                         {"system", l.system}}),
        "");
  }
  if (!run.country.empty())
    html += paragraph(fmt::format("CO2: {} g/kWh in {} ({}), PUE {}.", run.carbon_g_per_kwh,
                                  run.country, run.carbon_source, run.pue),
                      "soft");
  return html;
}

std::string configuration(const RunRecord& run) {
  return details("Configuration (config.toml)", preformatted(run.config));
}

}  // namespace hg::report
