#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tensor/base/text.h"
#include "train/experiment/results.h"
#include "train/experiment/results_charts.h"
#include "train/report/chart.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace hg::experiment {
namespace {

using report::cell;
using report::kTableEnd;
using report::label_cell;
using report::no_cell;
using report::paragraph;
using report::table_head;
using statistics::ArmSummary;
using statistics::Comparison;

std::string p_cell(double p) { return cell(p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p), p); }

std::string with_interval(const statistics::Estimate& e) {
  std::string text = fmt::format("{:.1f}", e.value);
  if (e.interval) text += fmt::format(" ({:.1f} to {:.1f})", e.interval->low, e.interval->high);
  return text;
}

// What is saved of the baseline's, and its interval; an F1 is not saved.
std::string saving_cell(const Contrast* c) {
  if (!c || c->metric == Metric::micro_f1 || !c->comparison.saving_percent) return no_cell();
  const statistics::Estimate& saving = *c->comparison.saving_percent;
  return cell(with_interval(saving), saving.value);
}

std::string provenance(const Results& r) {
  std::set<std::string> kinds, sources;
  for (const ArmResult& arm : r.analysis.arms)
    for (const RunFigures& run : arm.runs) {
      kinds.insert(run.energy_kind);
      sources.insert(run.energy_source);
    }
  std::string text = fmt::format(
      "hgtrain experiment {}{}: {} repeats, seeds from {}, arms interleaved. Machine: "
      "{}.",
      r.plan.called,
      r.plan.settings.empty() ? ""
                              : fmt::format(" --set {}", fmt::join(r.plan.settings, " --set ")),
      r.plan.repeats, r.plan.first_seed, r.machine);
  if (!kinds.empty())
    text += fmt::format(" Energy {}: {}. Ranges are 95 % intervals.", fmt::join(kinds, " and "),
                        fmt::join(sources, "; "));
  return text;
}

std::string answers(const Results& r) {
  std::string html = "<ul>\n";
  for (const ArmAnswer& arm : r.answer.arms) {
    html += fmt::format("<li><b>{}</b> ({}): {} {}</li>\n", escape_html(arm.arm),
                        escape_html(r.analysis.arm(arm.arm)->title), escape_html(arm.text),
                        escape_html(arm.to_target));
  }
  return r.answer.arms.empty() ? "" : html + "</ul>\n";
}

std::string shapiro_cells(const ArmSummary& s) {
  if (s.shapiro) return cell(s.shapiro->w, 4) + p_cell(s.shapiro->p);
  return fmt::format("<td data-tip=\"{}\">-</td>", escape_html(s.shapiro_refusal)) + no_cell();
}

std::string optional_p_cell(const auto& test) { return test ? p_cell(test->p) : no_cell(); }

// FLOPs are exact: no interval, but a range where runs of different seeds have different ones.
std::string flops_saving_cell(const ArmResult& arm) {
  if (!arm.flops_saving) return no_cell();
  const FlopsSaving& saving = *arm.flops_saving;
  const std::string low = fmt::format("{:.1f}", saving.range.low),
                    high = fmt::format("{:.1f}", saving.range.high);
  std::string text = fmt::format("{:.1f}", saving.percent);
  if (low != high) text += fmt::format(" ({} to {})", low, high);
  return cell(text, saving.percent);
}

// "94.6 ± 1.2"
std::string mean_cell(const ArmSummary& s, int decimals) {
  std::string text = fmt::format("{:.{}f}", s.mean, decimals);
  if (s.sd) text += fmt::format(" ± {:.{}f}", *s.sd, decimals);
  return cell(text, s.mean);
}

// So many decimals that a mean has four digits.
int decimals_for(double mean) {
  if (mean <= 0) return 1;
  return std::clamp(3 - static_cast<int>(std::floor(std::log10(mean))), 0, 6);
}

std::string arms_table(const Analysis& a) {
  std::string html =
      table_head({"arm"}, {"runs", "energy J", "micro F1", "macro F1", "seconds", "GFLOP",
                           "FLOPs saved %", "tokens/image", "J/image", "Pareto"});
  for (const ArmResult& arm : a.arms) {
    const ArmSummary &energy = *arm.summary(Metric::energy_j), &f1 = *arm.summary(Metric::micro_f1);
    double macro = 0, per_image = 0;
    const auto n = static_cast<double>(arm.runs.size());
    for (const RunFigures& run : arm.runs) {
      const auto images = static_cast<double>(run.images);
      macro += *run.macro_f1 / n;
      per_image += images > 0 ? run.energy_j.value / images / n : 0;
    }
    html += "<tr>" + label_cell(arm.name, arm.title) + cell(std::to_string(arm.runs.size()), n) +
            mean_cell(energy, decimals_for(energy.mean)) + mean_cell(f1, 4) + cell(macro, 4) +
            cell(arm.summary(Metric::seconds)->mean, 1) + cell(arm.mean_flops * 1e-9, 0) +
            flops_saving_cell(arm) + cell(arm.mean_tokens_per_image, 1) +
            cell(with_prefix(per_image, "J"), per_image) +
            cell(arm.pareto ? "yes" : "no", arm.pareto) + "</tr>\n";
  }
  return html + kTableEnd;
}

std::string energies_table(const Analysis& a) {
  std::string html = table_head({"arm"}, {"mean J", "sd", "median", "quartiles", "W", "p normal"});
  for (const ArmResult& arm : a.arms) {
    const ArmSummary& energy = *arm.summary(Metric::energy_j);
    const int decimals = decimals_for(energy.mean);
    html += "<tr>" + label_cell(arm.name) + cell(energy.mean, decimals) +
            cell(energy.sd, decimals) + cell(energy.median, decimals) +
            cell(fmt::format("{:.{}f} to {:.{}f}", energy.quartiles.low, decimals,
                             energy.quartiles.high, decimals),
                 energy.quartiles.high - energy.quartiles.low) +
            shapiro_cells(energy) + "</tr>\n";
  }
  return html + kTableEnd;
}

std::string chosen_cell(const Comparison& c) {
  return fmt::format("<td data-tip=\"{}\">{}</td>", escape_html(c.reason),
                     c.test == statistics::Test::paired_t ? "paired t" : "Wilcoxon");
}

std::string findings_table(const Analysis& a) {
  std::string html = table_head({"metric", "arm"}, {"pairs", "saving % (95 %)", "chosen", "p Holm",
                                                    "p TOST", "A12", "Hedges g"});
  for (const Contrast& contrast : a.contrasts) {
    const Comparison& c = contrast.comparison;
    html += "<tr>" + label_cell(std::string(title(contrast.metric))) + label_cell(contrast.arm) +
            cell(static_cast<double>(c.differences.n), 0) + saving_cell(&contrast) +
            chosen_cell(c) + p_cell(contrast.p_holm) + optional_p_cell(c.equivalence) +
            cell(c.a12, 2) + cell(c.hedges_g, 2) + "</tr>\n";
  }
  return html + kTableEnd;
}

// All tests, always; which of them the procedure chose, and why.
std::string tests_table(const Analysis& a) {
  std::string html = table_head({"metric", "arm"}, {"W", "p normal", "chosen", "p paired t",
                                                    "p Wilcoxon", "p Welch", "p Mann-Whitney"});
  for (const Contrast& contrast : a.contrasts) {
    const Comparison& c = contrast.comparison;
    html += "<tr>" + label_cell(std::string(title(contrast.metric))) + label_cell(contrast.arm) +
            shapiro_cells(c.differences) + chosen_cell(c) + optional_p_cell(c.paired_t) +
            p_cell(c.wilcoxon.p) + optional_p_cell(c.welch) + p_cell(c.mann_whitney.p) + "</tr>\n";
  }
  return html + kTableEnd;
}

std::string target_table(const Analysis& a) {
  std::string html = table_head({"arm"}, {"reached", "of runs", "epochs, mean", "energy J, mean",
                                          "GFLOP, mean", "saving % (95 %)"});
  for (const ArmResult& arm : a.arms) {
    const ToTarget& t = arm.to_target;
    const Contrast* c = a.contrast(arm.name, Metric::energy_to_target_j);
    html += "<tr>" + label_cell(arm.name) + cell(static_cast<double>(t.reached), 0) +
            cell(static_cast<double>(arm.runs.size()), 0) + cell(t.mean_epochs, 1) +
            cell(t.mean_energy_j, decimals_for(t.mean_energy_j.value_or(0))) +
            (t.mean_flops ? cell(*t.mean_flops * 1e-9, 0) : no_cell()) + saving_cell(c) + "</tr>\n";
  }
  return html + kTableEnd;
}

std::string runs_table(const Analysis& a) {
  std::string html =
      table_head({"run"}, {"energy J", "95 % interval", "micro F1", "macro F1", "seconds", "GFLOP",
                           "epochs", "g CO2", "to target: epoch", "J"});
  for (const ArmResult& arm : a.arms)
    for (const RunFigures& run : arm.runs) {
      const std::string link = escape_html(run.folder);
      html += fmt::format("<tr><td class=\"text\"><a href=\"{0}/report.html\">{1}-{2}</a></td>",
                          link, escape_html(run.arm), run.seed) +
              cell(run.energy_j.value, decimals_for(run.energy_j.value)) +
              cell(fmt::format("{:.3g} to {:.3g}", run.energy_j.low, run.energy_j.high),
                   run.energy_j.high - run.energy_j.low) +
              cell(run.micro_f1, 4) + cell(run.macro_f1, 4) + cell(run.seconds, 1) +
              cell(static_cast<double>(run.flops) * 1e-9, 0) +
              cell(static_cast<double>(run.epochs), 0) + cell(run.co2_g, 4);
      if (const auto t = a.target ? run.to_target(a.target->f1) : statistics::EnergyToTarget{};
          t.reached)
        html += cell(static_cast<double>(t.epoch), 0) + cell(t.energy_j, decimals_for(t.energy_j));
      else
        html += cell("never", 1e9) + cell("censored", 1e9);
      html += "</tr>\n";
    }
  return html + kTableEnd;
}

std::string settings_of(const Plan& plan) {
  std::vector<std::string> names;
  std::vector<Config> configs;
  std::string whole;
  for (const Arm& arm : plan.arms) {
    names.push_back(arm.name);
    configs.push_back(arm.config);
    configs.back().run.name = plan.arms[0].config.run.name;  // it differs by its arm alone
    whole +=
        report::details("Configuration of " + arm.name, report::preformatted(to_toml(arm.config)));
  }
  return "<h2>Settings</h2>\n" +
         report::figure("Settings that differ", report::settings_table(names, configs), "") + whole;
}

std::string front(const Results& r) {
  const Analysis& a = r.analysis;
  std::string html = "<h2>Energy against F1</h2>\n<div class=\"charts broad\">\n" +
                     report::figure("Pareto front", pareto_chart(a),
                                    "A small dot a run, a large one the mean of an arm. Up and to "
                                    "the left is better: arms in the shaded part are beaten.");
  if (const std::string savings = savings_chart(a); !savings.empty())
    html += report::figure(fmt::format("Energy saved against {}, %", a.arms[0].name), savings,
                           "Of the means (BCa bootstrap of pairs of one seed). An interval that "
                           "holds 0 shows no saving, and one that does not needs the corrected "
                           "test to agree.");
  return html +
         report::figure("Learning curves, by energy", f1_by_energy(a),
                        "Means over the seeds; the bands go from the lowest to the highest.") +
         report::figure("Learning curves, by epoch", f1_by_epoch(a), "") + "</div>\n";
}

std::string tables(const Results& r) {
  const Analysis& a = r.analysis;
  std::string html =
      "<h2>Arms</h2>\n" +
      report::figure("Means over the runs, ± standard deviation", arms_table(a),
                     "Energy and FLOPs of all phases, evaluation included. FLOPs are counted, so "
                     "what is saved of them is exact.") +
      report::figure("Energy of the runs", energies_table(a), "W, p normal: Shapiro-Wilk.");
  if (a.target)
    html += report::figure(
        fmt::format("Energy to a micro F1 of {:.4f}", a.target->f1), target_table(a),
        fmt::format("{}. At the first evaluation that reaches it; means are over the runs that do, "
                    "savings only where every run of both arms does.",
                    a.target->rule));
  if (!a.contrasts.empty())
    html += "<h2>Tests</h2>\n" +
            report::figure(
                fmt::format("Each arm against {}", a.arms[0].name), findings_table(a),
                fmt::format(
                    "By pairs of runs of one seed. p Holm: the p of the chosen test, corrected for "
                    "the arms compared in the metric. p TOST: of equivalence within {:g} points of "
                    "F1. A12: chance that a run of the baseline has the larger figure.",
                    r.plan.margin_points)) +
            report::figure("All tests", tests_table(a),
                           "W, p normal: Shapiro-Wilk of the differences; rejected, it chooses "
                           "Wilcoxon, else the paired t-test, both two-sided. Welch and "
                           "Mann-Whitney, as if the runs were independent, for comparison.");
  return html + "<h2>Runs</h2>\n" +
         report::figure("Raw figures", runs_table(a),
                        "Each run's folder holds its ledger and report.");
}

}  // namespace

std::string to_page(const Results& r, bool live) {
  std::string html = report::document_start("Experiment " + r.plan.experiment, live);
  html += report::heading(1, fmt::format("{}: {}", r.plan.experiment, r.plan.question));
  html += paragraph(fmt::format("{}. {}", r.status, provenance(r)), "soft");
  html += "<h2>Answer</h2>\n" + paragraph(r.answer.headline, "lead");
  if (!r.answer.goal.empty()) html += paragraph(r.answer.goal);
  html += answers(r);
  for (const std::string& caveat : r.answer.caveats) html += paragraph(caveat, "soft");
  if (!r.analysis.arms.empty()) html += front(r) + tables(r);
  return html + settings_of(r.plan) + report::document_end();
}

}  // namespace hg::experiment
