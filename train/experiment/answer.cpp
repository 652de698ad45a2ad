#include "train/experiment/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tensor/base/text.h"

namespace hg::experiment {
namespace {

using statistics::Comparison;
using statistics::Interval;

constexpr double kAlpha = 0.05;
constexpr std::size_t kFewestRuns = 5;  // nn/METHODS.md, section 9

std::string p_text(double p) { return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.3f}", p); }

std::string_view test_name(statistics::Test test) {
  return test == statistics::Test::welch ? "Welch" : "Mann-Whitney";
}

// "Welch p = 0.012, corrected 0.024"
std::string chosen_test(const Contrast& c) {
  return fmt::format("{} {}, Holm-corrected {}", test_name(c.comparison.test),
                     p_text(c.comparison.p), p_text(c.p_holm));
}

bool lower_f1_shown(const Comparison& f1) {
  if (f1.welch) return f1.welch->interval.low > 0;  // of baseline - arm
  return f1.b.mean < f1.a.mean;                     // two constant samples, or single runs
}

std::string f1_sentence(const Comparison& f1) {
  const double points = 100 * (f1.b.mean - f1.a.mean);
  std::string text =
      fmt::format("Its micro F1 is {:.4f} against {:.4f}, {:.2f} points {}", f1.b.mean, f1.a.mean,
                  std::abs(points), points < 0 ? "lower" : "higher");
  if (!f1.welch) return text + ".";
  const Interval& i = f1.welch->interval;  // of baseline - arm
  text += fmt::format(" (95 % interval {:+.2f} to {:+.2f})", -100 * i.high, -100 * i.low);
  if (i.low <= 0 && i.high >= 0) text += ": no difference shown";
  return text + ".";
}

std::string saving_sentence(const Contrast& energy, Finding finding) {
  const Comparison& c = energy.comparison;
  const double saving = c.saving_percent->value;
  const Interval& i = *c.saving_percent->interval;
  const std::string interval = fmt::format("95 % interval {:.1f} to {:.1f}", i.low, i.high);
  const std::string unconfirmed =
      energy.p_holm > kAlpha ? "; the corrected test does not confirm it" : "";
  if (finding == Finding::no_saving_shown)
    return fmt::format("No saving shown: {:+.1f} % energy saved, {}, which holds 0 ({}).", saving,
                       interval, chosen_test(energy));
  if (finding == Finding::costs_more)
    return fmt::format("It uses {:.1f} % more energy (saving {:.1f} %, {}; {}{}).", -saving, saving,
                       interval, chosen_test(energy), unconfirmed);
  return fmt::format("It saves {:.1f} % of the energy ({}; {}{}).", saving, interval,
                     chosen_test(energy), unconfirmed);
}

Finding finding_of(const Comparison& energy, const Comparison& f1) {
  const Interval& saving = *energy.saving_percent->interval;
  if (saving.high < 0) return Finding::costs_more;
  if (saving.low <= 0) return Finding::no_saving_shown;
  return lower_f1_shown(f1) ? Finding::saves_at_lower_f1 : Finding::saves;
}

ArmAnswer judge_arm(const Analysis& a, const ArmResult& arm, const std::string& obstacle) {
  ArmAnswer result{arm.name, Finding::cannot_be_said, "", ""};
  const Contrast *energy = a.contrast(arm.name, Metric::energy_j),
                 *f1 = a.contrast(arm.name, Metric::micro_f1);
  if (!energy || !f1) {
    result.text = "Nothing to compare it with yet.";
    return result;
  }
  const Comparison& c = energy->comparison;
  const std::string means = fmt::format("{} against {} in the mean", with_prefix(c.b.mean, "J"),
                                        with_prefix(c.a.mean, "J"));
  if (!obstacle.empty()) {
    result.text =
        fmt::format("No claim of a saving ({}): the arms differ in {}. ", means, obstacle);
  } else if (!c.saving_percent || !c.saving_percent->interval) {
    result.text =
        fmt::format("Nothing can be said of a saving ({}): there is no interval, as {}. ", means,
                    c.interval_refusal.empty() ? "an energy is not positive" : c.interval_refusal);
  } else {
    result.finding = finding_of(c, f1->comparison);
    result.text = saving_sentence(*energy, result.finding) + " ";
  }
  result.text += f1_sentence(f1->comparison);
  return result;
}

std::string reached_text(const ArmResult& arm) {
  const ToTarget& t = arm.to_target;
  std::string text =
      fmt::format("{} of {} runs of {} reached it", t.reached, arm.runs.size(), arm.name);
  if (!t.mean_epochs) return text;
  return text + fmt::format(", after {:.1f} epochs and {} in the mean", *t.mean_epochs,
                            with_prefix(*t.mean_energy_j, "J"));
}

std::string target_sentence(const Analysis& a, const ArmResult& arm) {
  if (!a.target) return "";
  std::string text = fmt::format("Target micro F1 {:.4f}: {}", a.target->f1, reached_text(arm));
  if (&arm == a.baseline()) return text + ".";
  const Contrast* c = a.contrast(arm.name, Metric::energy_to_target_j);
  if (!c) return text + "; energy to the target is not compared, as runs without it are censored.";
  if (!c->comparison.saving_percent || !c->comparison.saving_percent->interval) return text + ".";
  const Interval& i = *c->comparison.saving_percent->interval;
  const double saving = c->comparison.saving_percent->value;
  const char* verdict = i.low > 0 ? "less" : i.high < 0 ? "more" : "less, not shown to differ";
  return text + fmt::format(
                    ": {:.1f} % {} energy to the target than {} (saving's 95 % interval "
                    "{:.1f} to {:.1f}).",
                    i.high < 0 ? -saving : saving, verdict, a.arms[0].name, i.low, i.high);
}

// Arms whose saving on the way to the target is shown.
std::vector<std::string> cheaper_to_target(const Analysis& a) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < a.arms.size(); ++i) {
    const Contrast* c = a.contrast(a.arms[i].name, Metric::energy_to_target_j);
    if (!c || !a.obstacles[i].empty()) continue;
    const auto& saving = c->comparison.saving_percent;
    if (saving && saving->interval && saving->interval->low > 0) names.push_back(a.arms[i].name);
  }
  return names;
}

std::string headline(const Analysis& a, const std::vector<ArmAnswer>& arms) {
  if (arms.empty()) return "Nothing to compare yet.";
  const auto with = [&](Finding finding) {
    std::vector<std::string> names;
    for (const ArmAnswer& arm : arms)
      if (arm.finding == finding) names.push_back(arm.arm);
    return names;
  };
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) parts.push_back(fmt::format("{} {}", what, fmt::join(names, ", ")));
  };
  const bool any = !with(Finding::saves).empty() || !with(Finding::saves_at_lower_f1).empty();
  add("energy is saved with no loss of F1 shown by", with(Finding::saves));
  add("energy is saved at a lower F1 by", with(Finding::saves_at_lower_f1));
  add("no saving is shown for", with(Finding::no_saving_shown));
  add("more energy than the baseline is used by", with(Finding::costs_more));
  add("nothing can be said of", with(Finding::cannot_be_said));
  add("less energy to the target F1 is needed by", cheaper_to_target(a));
  const bool all_unknown = with(Finding::cannot_be_said).size() == arms.size();
  const std::string opening = any           ? "Yes, in part"
                              : all_unknown ? "Cannot be said"
                                            : "No saving shown";
  const bool all_save = with(Finding::saves).size() == arms.size();
  return fmt::format("{}, against {}: {}.", all_save ? "Yes" : opening, a.arms[0].name,
                     fmt::join(parts, "; "));
}

std::string goal_sentence(const Goal& goal, const Analysis& a) {
  const std::string what =
      fmt::format("Goal: at least {:.0f} % less energy at a micro F1 at most {:.1f} points lower",
                  goal.saving_percent, goal.f1_points);
  if (a.arms.size() < 2) return what + ": not judged yet.";
  const Contrast *energy = a.contrast(a.arms[1].name, Metric::energy_j),
                 *f1 = a.contrast(a.arms[1].name, Metric::micro_f1);
  if (!energy || !f1 || !energy->comparison.saving_percent || !a.obstacles[1].empty())
    return what + ": not to be judged.";
  const double saving = energy->comparison.saving_percent->value;
  const double points = 100 * (f1->comparison.b.mean - f1->comparison.a.mean);
  const bool reached = saving >= goal.saving_percent && points >= -goal.f1_points;
  return fmt::format("{}: {} in the means of {} and {} runs ({:.1f} % less, {:+.2f} points).", what,
                     reached ? "reached" : "not reached", energy->comparison.a.n,
                     energy->comparison.b.n, saving, points);
}

// Runs that other work on the machine held up.
void add_cpu_caveat(const Analysis& a, std::vector<std::string>& caveats) {
  std::size_t held_up = 0, all = 0;
  double least = 1;
  for (const ArmResult& arm : a.arms)
    for (const RunFigures& run : arm.runs) {
      const double share = run.cpu_share.value_or(1);
      ++all;
      held_up += share < kFullCpuShare;
      least = std::min(least, share);
    }
  if (held_up > 0)
    caveats.push_back(
        fmt::format("{} of {} runs got less than {:.0f} % of the cores they asked for, one of them "
                    "{:.0f} %: other work on the machine held them up.",
                    held_up, all, 100 * kFullCpuShare, 100 * least));
}

std::vector<std::string> caveats_of(const Plan& plan, const Analysis& a) {
  std::vector<std::string> caveats;
  std::set<std::string> kinds;
  std::size_t fewest = SIZE_MAX;
  for (const ArmResult& arm : a.arms) {
    fewest = std::min(fewest, arm.runs.size());
    for (const RunFigures& run : arm.runs) kinds.insert(run.energy_kind);
  }
  for (const std::string& kind : kinds)
    if (kind == "modelled")
      caveats.push_back(
          "The energy is modelled, not measured: savings are those of the model, and other work on "
          "the machine makes it noisy.");
  if (a.arms.size() < plan.arms.size() || fewest < static_cast<std::size_t>(plan.repeats))
    caveats.push_back("The experiment is not finished.");
  if (!a.arms.empty() && fewest < 3)
    caveats.push_back(fmt::format(
        "An arm has {} run{}: with fewer than 3 there are no intervals and no test of normality.",
        fewest, fewest == 1 ? "" : "s"));
  else if (!a.arms.empty() && fewest < kFewestRuns)
    caveats.push_back(fmt::format(
        "With {} runs an arm, fewer than {}, intervals are rough and normality can hardly be "
        "rejected; Mann-Whitney cannot get below p = {}.",
        fewest, kFewestRuns, fewest == 3 ? "0.1" : "0.029"));
  return caveats;
}

}  // namespace

Answer answer(const Plan& plan, const Analysis& analysis) {
  Answer result;
  for (std::size_t i = 1; i < analysis.arms.size() && !analysis.obstacles.empty(); ++i) {
    ArmAnswer arm = judge_arm(analysis, analysis.arms[i], analysis.obstacles[i]);
    arm.to_target = target_sentence(analysis, analysis.arms[i]);
    result.arms.push_back(std::move(arm));
  }
  result.headline = headline(analysis, result.arms);
  if (plan.goal) result.goal = goal_sentence(*plan.goal, analysis);
  result.caveats = caveats_of(plan, analysis);
  add_cpu_caveat(analysis, result.caveats);
  return result;
}

}  // namespace hg::experiment
