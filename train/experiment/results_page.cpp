#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tensor/base/text.h"
#include "train/experiment/results.h"
#include "train/report/chart.h"
#include "train/report/html.h"

namespace hg::experiment {
namespace {

using report::cell;
using report::kTableEnd;
using report::label_cell;
using report::no_cell;
using report::table_head;
using statistics::ArmSummary;
using statistics::Comparison;

std::string paragraph(const std::string& text, const char* css = "") {
  return fmt::format("<p{}>{}</p>\n", *css ? fmt::format(" class=\"{}\"", css) : "",
                     escape_html(text));
}

std::string p_cell(double p) { return cell(p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p), p); }

// What is saved of the baseline's, and its interval; an F1 is not saved.
std::string saving_cells(const Contrast* c) {
  if (!c || c->metric == Metric::micro_f1 || !c->comparison.saving_percent)
    return no_cell() + no_cell() + no_cell();
  const statistics::Estimate& saving = *c->comparison.saving_percent;
  return cell(saving.value, 1) +
         (saving.interval ? cell(saving.interval->low, 1) + cell(saving.interval->high, 1)
                          : no_cell() + no_cell());
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
    text += fmt::format(" Energy {}: {}.", fmt::join(kinds, " and "), fmt::join(sources, "; "));
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
  return fmt::format("<td title=\"{}\">-</td>", escape_html(s.shapiro_refusal)) + no_cell();
}

std::string optional_p_cell(const auto& test) { return test ? p_cell(test->p) : no_cell(); }

// FLOPs are exact: no interval, but a range where runs of different seeds have different ones.
std::string flops_saving_cell(const ArmResult& arm) {
  if (!arm.flops_saving) return no_cell();
  const FlopsSaving& saving = *arm.flops_saving;
  std::string text = fmt::format("{:.1f}", saving.percent);
  if (saving.range.low != saving.range.high)
    text += fmt::format(" ({:.1f} to {:.1f})", saving.range.low, saving.range.high);
  return cell(text, saving.percent);
}

std::string arms_table(const Analysis& a) {
  std::string html =
      table_head({"arm", "what"},
                 {"runs", "energy J", "sd", "median", "W", "p normal", "micro F1", "sd", "macro F1",
                  "seconds", "GFLOP", "FLOPs saved %", "tokens/image", "J/image", "Pareto"});
  for (const ArmResult& arm : a.arms) {
    const ArmSummary &energy = *arm.summary(Metric::energy_j), &f1 = *arm.summary(Metric::micro_f1);
    double macro = 0, per_image = 0;
    const auto n = static_cast<double>(arm.runs.size());
    for (const RunFigures& run : arm.runs) {
      const auto images = static_cast<double>(run.images);
      macro += *run.macro_f1 / n;
      per_image += images > 0 ? run.energy_j.value / images / n : 0;
    }
    html += "<tr>" + label_cell(arm.name) + label_cell(arm.title) +
            cell(std::to_string(arm.runs.size()), n) +
            cell(fmt::format("{:.4g}", energy.mean), energy.mean) +
            (energy.sd ? cell(fmt::format("{:.2g}", *energy.sd), *energy.sd) : no_cell()) +
            cell(fmt::format("{:.4g}", energy.median), energy.median) + shapiro_cells(energy) +
            cell(f1.mean, 4) + cell(f1.sd, 4) + cell(macro, 4) +
            cell(arm.summary(Metric::seconds)->mean, 1) + cell(arm.mean_flops * 1e-9, 0) +
            flops_saving_cell(arm) + cell(arm.mean_tokens_per_image, 1) +
            cell(with_prefix(per_image, "J"), per_image) +
            cell(arm.pareto ? "yes" : "no", arm.pareto) + "</tr>\n";
  }
  return html + kTableEnd;
}

// All tests, always; which of them the procedure chose, and why.
std::string tests_table(const Analysis& a) {
  std::string html =
      table_head({"metric", "arm"},
                 {"pairs", "W", "p normal", "saving %", "low", "high", "p paired t", "p Wilcoxon",
                  "chosen", "p Holm", "p TOST", "p Welch", "p Mann-Whitney", "A12", "Hedges g"});
  for (const Contrast& contrast : a.contrasts) {
    const Comparison& c = contrast.comparison;
    html += "<tr>" + label_cell(std::string(title(contrast.metric))) + label_cell(contrast.arm) +
            cell(static_cast<double>(c.differences.n), 0) + shapiro_cells(c.differences) +
            saving_cells(&contrast) + optional_p_cell(c.paired_t) + p_cell(c.wilcoxon.p) +
            fmt::format("<td title=\"{}\">{}</td>", escape_html(c.reason),
                        c.test == statistics::Test::paired_t ? "paired t" : "Wilcoxon") +
            p_cell(contrast.p_holm) + optional_p_cell(c.equivalence) + optional_p_cell(c.welch) +
            p_cell(c.mann_whitney.p) + cell(c.a12, 2) + cell(c.hedges_g, 2) + "</tr>\n";
  }
  return html + kTableEnd;
}

std::string target_table(const Analysis& a) {
  std::string html = table_head({"arm"}, {"reached", "of runs", "epochs, mean", "energy J, mean",
                                          "GFLOP, mean", "saving %", "low", "high"});
  for (const ArmResult& arm : a.arms) {
    const ToTarget& t = arm.to_target;
    const Contrast* c = a.contrast(arm.name, Metric::energy_to_target_j);
    html += "<tr>" + label_cell(arm.name) + cell(static_cast<double>(t.reached), 0) +
            cell(static_cast<double>(arm.runs.size()), 0) + cell(t.mean_epochs, 1) +
            cell(t.mean_energy_j, 1) + (t.mean_flops ? cell(*t.mean_flops * 1e-9, 0) : no_cell()) +
            saving_cells(c) + "</tr>\n";
  }
  return html + kTableEnd;
}

std::string flops_saved(const ArmResult& arm) {
  return arm.flops_saving ? fmt::format("; FLOPs {:.1f} %", arm.flops_saving->percent) : "";
}

std::string savings_chart(const Analysis& a) {
  std::vector<report::Bar> bars;
  for (std::size_t i = 0; i < a.arms.size(); ++i) {
    const Contrast* c = a.contrast(a.arms[i].name, Metric::energy_j);
    if (!c || !c->comparison.saving_percent || !c->comparison.saving_percent->interval) continue;
    const statistics::Estimate& saving = *c->comparison.saving_percent;
    bars.push_back({a.arms[i].name,
                    fmt::format("{:.1f} % ({:.1f} to {:.1f}){}", saving.value, saving.interval->low,
                                saving.interval->high, flops_saved(a.arms[i])),
                    {saving.value, saving.interval->low, saving.interval->high},
                    i});
  }
  return bars.empty() ? "" : report::interval_chart("Energy saved, %", bars);
}

// A dot a run, in its arm's colour; the line joins the means of the arms that no other beats.
std::string pareto_chart(const Analysis& a) {
  std::vector<report::Series> series;
  std::vector<std::string> names;
  report::Series front{"Pareto front of the means", {}, true, false};
  for (const ArmResult& arm : a.arms) {
    report::Series dots{arm.name, {}, false, true};
    for (const RunFigures& run : arm.runs)
      dots.points.push_back({run.energy_j.value, *run.micro_f1,
                             fmt::format("{}, seed {}: micro F1 {:.4f} for {}", arm.name, run.seed,
                                         *run.micro_f1, with_prefix(run.energy_j.value, "J"))});
    if (arm.pareto)
      front.points.push_back(
          {arm.summary(Metric::energy_j)->mean, arm.summary(Metric::micro_f1)->mean, arm.name});
    names.push_back(arm.name);
    series.push_back(std::move(dots));
  }
  std::sort(front.points.begin(), front.points.end(),
            [](const report::Point& p, const report::Point& q) { return p.x < q.x; });
  names.push_back(front.name);
  series.push_back(std::move(front));
  return report::legend(names) + report::line_chart({"energy of a run, J", "micro F1"}, series);
}

std::string runs_table(const Analysis& a) {
  std::string html = table_head(
      {"run", "energy is"}, {"energy J", "low", "high", "micro F1", "macro F1", "seconds", "GFLOP",
                             "epochs", "g CO2", "to target: epoch", "J"});
  for (const ArmResult& arm : a.arms)
    for (const RunFigures& run : arm.runs) {
      const std::string link = escape_html(run.folder);
      html += fmt::format("<tr><td class=\"text\"><a href=\"{0}/report.html\">{1}-{2}</a></td>",
                          link, escape_html(run.arm), run.seed) +
              label_cell(run.energy_kind) + cell(run.energy_j.value, 1) +
              cell(run.energy_j.low, 1) + cell(run.energy_j.high, 1) + cell(run.micro_f1, 4) +
              cell(run.macro_f1, 4) + cell(run.seconds, 1) +
              cell(static_cast<double>(run.flops) * 1e-9, 0) +
              cell(static_cast<double>(run.epochs), 0) + cell(run.co2_g, 4);
      if (const auto t = a.target ? run.to_target(a.target->f1) : statistics::EnergyToTarget{};
          t.reached)
        html += cell(static_cast<double>(t.epoch), 0) + cell(t.energy_j, 1);
      else
        html += cell("never", 1e9) + cell("censored", 1e9);
      html += "</tr>\n";
    }
  return html + kTableEnd;
}

std::string settings_of(const Plan& plan) {
  std::string html;
  for (const Arm& arm : plan.arms)
    html += fmt::format("<details><summary>Configuration of {}</summary><pre>{}</pre></details>\n",
                        escape_html(arm.name), escape_html(to_toml(arm.config)));
  return html;
}

}  // namespace

std::string to_page(const Results& r) {
  const Analysis& a = r.analysis;
  std::string html = report::document_start("Experiment " + r.plan.experiment);
  html += fmt::format("<h1>{}: {}</h1>\n", escape_html(r.plan.experiment),
                      escape_html(r.plan.question));
  html += paragraph(fmt::format("{}. {}", r.status, provenance(r)), "soft");
  html += "<h2>Answer</h2>\n" + paragraph(r.answer.headline);
  if (!r.answer.goal.empty()) html += paragraph(r.answer.goal);
  html += answers(r);
  for (const std::string& caveat : r.answer.caveats) html += paragraph(caveat, "soft");
  if (!a.arms.empty()) {
    html += "<h2>Energy against F1</h2>\n<div class=\"charts\">\n";
    html +=
        report::figure("Pareto front", pareto_chart(a),
                       "A dot a run. Up and to the left is better: no arm on the front has both "
                       "more energy and a lower F1 than another, by their means.");
    if (const std::string savings = savings_chart(a); !savings.empty())
      html += report::figure(fmt::format("Energy saved against {}, %", a.arms[0].name), savings,
                             "Of the means, with 95 % intervals (BCa bootstrap of pairs of one "
                             "seed). An interval that holds 0 shows no saving, and one that does "
                             "not needs the corrected test to agree.");
    html += "</div>\n";
    html +=
        "<h2>Arms</h2>\n" +
        report::figure(
            "Means over the runs", arms_table(a),
            "Energy and FLOPs of all phases, evaluation included. FLOPs are counted, so what is "
            "saved of them is exact. W, p normal: Shapiro-Wilk of the energy.");
  }
  if (a.target)
    html += report::figure(
        fmt::format("Energy to a micro F1 of {:.4f}", a.target->f1), target_table(a),
        fmt::format("{}. At the first evaluation that reaches it; means are over the runs that do, "
                    "savings only where every run of both arms does.",
                    a.target->rule));
  if (!a.contrasts.empty())
    html +=
        "<h2>Tests</h2>\n" +
        report::figure(
            fmt::format("Each arm against {}", a.arms[0].name), tests_table(a),
            fmt::format(
                "By pairs of runs of one seed. W, p normal: Shapiro-Wilk of their differences; "
                "rejected, it chooses Wilcoxon, else the paired t-test, both two-sided. p Holm: "
                "the chosen p corrected for the arms compared in the metric. p TOST: of "
                "equivalence within {:g} points of F1. Welch and Mann-Whitney, as if the runs "
                "were independent, for comparison. A12: chance that a run of the baseline has the "
                "larger figure.",
                r.plan.margin_points));
  if (!a.arms.empty())
    html += "<h2>Runs</h2>\n" + report::figure("Raw figures", runs_table(a),
                                               "Each run's folder holds its ledger and report.");
  return html + settings_of(r.plan) + report::document_end();
}

}  // namespace hg::experiment
