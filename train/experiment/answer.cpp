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

constexpr std::size_t kFewestForWilcoxon = 6;  // with fewer it cannot reach kAlpha

std::string p_text(double p) { return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.3f}", p); }

std::string_view test_name(statistics::Test test) {
  return test == statistics::Test::paired_t ? "paired t" : "Wilcoxon";
}

// "paired t p = 0.012, Holm-corrected p = 0.024"
std::string chosen_test(const Contrast& c) {
  return fmt::format("{} {}, Holm-corrected {}", test_name(c.comparison.test),
                     p_text(c.comparison.p), p_text(c.p_holm));
}

F1Finding f1_finding_of(const Comparison& f1) {
  if (f1.equivalent) return F1Finding::equivalent;
  // Without an interval (one pair, or one difference in all) a lower F1 is called so: it warns.
  const Interval of_difference =  // baseline - arm
      f1.paired_t ? f1.paired_t->interval : Interval{f1.differences.mean, 0};
  if (of_difference.low > 0) return F1Finding::lower;
  if (f1.paired_t && of_difference.high < 0) return F1Finding::higher;
  return F1Finding::not_shown;
}

std::string f1_verdict(const Comparison& f1, F1Finding finding, double margin_points) {
  if (finding == F1Finding::lower) return f1.paired_t ? "shown to be lower" : "lower in every pair";
  if (finding == F1Finding::higher) return "shown to be higher";
  const std::string same = fmt::format("the same within {:g} points", margin_points);
  if (!f1.equivalence) return fmt::format("not shown to be {}, as no test can be made", same);
  return fmt::format("{}{} (TOST {})", finding == F1Finding::equivalent ? "" : "not shown to be ",
                     same, p_text(f1.equivalence->p));
}

std::string f1_sentence(const Comparison& f1, F1Finding finding, double margin_points) {
  const double points = 100 * (f1.b.mean - f1.a.mean);
  std::string text =
      fmt::format("Its micro F1 is {:.4f} against {:.4f}, {:.2f} points {}", f1.b.mean, f1.a.mean,
                  std::abs(points), points < 0 ? "lower" : "higher");
  if (f1.paired_t) {
    const Interval& i = f1.paired_t->interval;  // of baseline - arm
    text += fmt::format(" (95 % interval {:+.2f} to {:+.2f})", -100 * i.high, -100 * i.low);
  }
  return fmt::format("{}: {}.", text, f1_verdict(f1, finding, margin_points));
}

// "35.1 % fewer FLOPs"; they are exact.
std::string flops_text(const ArmResult& arm) {
  if (!arm.flops_saving) return "FLOPs not compared";
  const FlopsSaving& saving = *arm.flops_saving;
  std::string text = fmt::format("{:.1f} % {} FLOPs", std::abs(saving.percent),
                                 saving.percent < 0 ? "more" : "fewer");
  if (saving.range.low != saving.range.high)
    text += fmt::format(", {:.1f} to {:.1f} % by seed", saving.range.low, saving.range.high);
  return text;
}

// Why a saving is not shown.
std::string shortcoming(const Contrast& energy, const ArmResult& arm) {
  if (energy.shown_less())
    return fmt::format(
        "the arms differ in {}, and F1 is not shown to be the same or higher, so that less energy "
        "is no saving",
        arm.trains_unequally);
  const Interval& i = *energy.comparison.saving_percent->interval;
  return i.low <= 0 && i.high >= 0 ? "the interval holds 0"
                                   : "the corrected test does not confirm it";
}

// "; the arms differ in epochs, 5 and 6"
std::string unequal_note(const ArmResult& arm) {
  return arm.trains_unequally.empty()
             ? ""
             : fmt::format("; the arms differ in {}", arm.trains_unequally);
}

std::string saving_sentence(const Contrast& energy, Finding finding, const ArmResult& arm) {
  const Comparison& c = energy.comparison;
  const double saving = c.saving_percent->value;
  const Interval& i = *c.saving_percent->interval;
  const std::string evidence = fmt::format("95 % interval {:.1f} to {:.1f}; {}; {}", i.low, i.high,
                                           chosen_test(energy), flops_text(arm));
  if (finding == Finding::no_saving_shown)
    return fmt::format("No saving shown: {:.1f} % of the energy saved ({}); {}.", saving, evidence,
                       shortcoming(energy, arm));
  if (finding == Finding::costs_more)
    return fmt::format("It uses {:.1f} % more energy (saving {:.1f} %, {}).", -saving, saving,
                       evidence);
  return fmt::format("It saves {:.1f} % of the energy ({}){}.", saving, evidence,
                     unequal_note(arm));
}

bool as_good(F1Finding f1) { return f1 == F1Finding::equivalent || f1 == F1Finding::higher; }

// Less training always needs less energy: that alone is no saving.
Finding finding_of(const Contrast& energy, F1Finding f1, bool equal_training) {
  if (energy.shown_more()) return Finding::costs_more;
  if (!energy.shown_less() || (!equal_training && !as_good(f1))) return Finding::no_saving_shown;
  return f1 == F1Finding::lower ? Finding::saves_at_lower_f1 : Finding::saves;
}

ArmAnswer judge_arm(const Plan& plan, const Analysis& a, const ArmResult& arm,
                    const std::string& obstacle) {
  ArmAnswer result{arm.name, Finding::cannot_be_said, F1Finding::not_shown, "", ""};
  const Contrast *energy = a.contrast(arm.name, Metric::energy_j),
                 *f1 = a.contrast(arm.name, Metric::micro_f1);
  if (!energy || !f1) {
    result.text = "Nothing to compare it with yet: no seed has a run of it and of the baseline.";
    return result;
  }
  const Comparison& c = energy->comparison;
  result.f1 = f1_finding_of(f1->comparison);
  const std::string means = fmt::format("{} against {} in the mean, {}", with_prefix(c.b.mean, "J"),
                                        with_prefix(c.a.mean, "J"), flops_text(arm));
  if (!obstacle.empty()) {
    result.text =
        fmt::format("No claim of a saving ({}): the arms differ in {}. ", means, obstacle);
  } else if (!c.saving_percent || !c.saving_percent->interval) {
    result.text =
        fmt::format("Nothing can be said of a saving ({}): there is no interval, as {}. ", means,
                    c.interval_refusal.empty() ? "an energy is not positive" : c.interval_refusal);
  } else {
    result.finding = finding_of(*energy, result.f1, arm.trains_unequally.empty());
    result.text = saving_sentence(*energy, result.finding, arm) + " ";
  }
  result.text += f1_sentence(f1->comparison, result.f1, plan.margin_points);
  return result;
}

std::string reached_text(const ArmResult& arm) {
  const ToTarget& t = arm.to_target;
  std::string text =
      fmt::format("{} of {} runs of {} reached it", t.reached, arm.runs.size(), arm.name);
  if (!t.mean_epochs) return text;
  return text + fmt::format(", after {:.1f} epochs, {} and {} in the mean", *t.mean_epochs,
                            with_prefix(*t.mean_energy_j, "J"), with_prefix(*t.mean_flops, "FLOP"));
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
  return text + fmt::format(
                    ": {:.1f} % {} energy to the target than {}{} (saving's 95 % interval {:.1f} "
                    "to {:.1f}; {}).",
                    std::abs(saving), saving < 0 ? "more" : "less", a.arms[0].name,
                    c->shown_less() || c->shown_more() ? "" : ", not shown to differ", i.low,
                    i.high, chosen_test(*c));
}

// Arms whose saving on the way to the target is shown.
std::vector<std::string> cheaper_to_target(const Analysis& a) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < a.arms.size(); ++i) {
    const Contrast* c = a.contrast(a.arms[i].name, Metric::energy_to_target_j);
    if (c && a.obstacles[i].empty() && c->shown_less()) names.push_back(a.arms[i].name);
  }
  return names;
}

// Of runs that the arms are compared by; the fewest of any arm.
std::size_t fewest_pairs(const Analysis& a) {
  std::size_t fewest = SIZE_MAX;
  for (const Contrast& c : a.contrasts) fewest = std::min(fewest, c.comparison.differences.n);
  return fewest;
}

// "hugginggreen saves 28.2 % of the energy at the same F1 (within 0.5 points)". Arms of unequal
// training are marked.
std::string claim(const Plan& plan, const Analysis& a, const ArmAnswer& arm) {
  const Contrast& energy = *a.contrast(arm.arm, Metric::energy_j);
  const Comparison& f1 = a.contrast(arm.arm, Metric::micro_f1)->comparison;
  const double points = 100 * std::abs(f1.b.mean - f1.a.mean);
  const std::string& unequal = a.arm(arm.arm)->trains_unequally;
  const std::string saves = fmt::format("{}{} saves {:.1f} % of the energy", arm.arm,
                                        unequal.empty() ? "" : fmt::format(" ({})", unequal),
                                        energy.comparison.saving_percent->value);
  if (arm.f1 == F1Finding::equivalent)
    return fmt::format("{} at the same F1 (within {:g} points)", saves, plan.margin_points);
  if (arm.f1 == F1Finding::not_shown)
    return fmt::format("{}, but its F1 is not shown to be the same (within {:g} points)", saves,
                       plan.margin_points);
  return fmt::format("{} at an F1 that is {:.1f} points {}", saves, points,
                     arm.f1 == F1Finding::lower ? "lower" : "higher");
}

// "hugginggreen (28.2 %, p = 0.250)"; what is significant, but bought by less training, says so.
std::string not_shown(const Analysis& a, const std::string& arm) {
  const Contrast& energy = *a.contrast(arm, Metric::energy_j);
  return fmt::format(
      "{} ({:.1f} %, {}{})", arm, energy.comparison.saving_percent->value, p_text(energy.p_holm),
      energy.shown_less()
          ? fmt::format("; {}, F1 not shown to be the same", a.arm(arm)->trains_unequally)
          : "");
}

bool unreserved(const ArmAnswer& arm) {
  return arm.finding == Finding::saves && arm.f1 != F1Finding::not_shown;
}

// The first words: a yes for what all tests agree on, and a plain yes only without reservations.
std::string opening(const Analysis& a, const std::vector<ArmAnswer>& arms) {
  const auto all = [&](auto property) { return std::all_of(arms.begin(), arms.end(), property); };
  const auto is = [](Finding finding) {
    return [finding](const ArmAnswer& arm) { return arm.finding == finding; };
  };
  const auto none_saves = [](const ArmAnswer& arm) {
    return arm.finding != Finding::saves && arm.finding != Finding::saves_at_lower_f1;
  };
  if (all(unreserved)) return "Yes";
  if (!all(none_saves)) return "Yes, in part";
  if (all(is(Finding::cannot_be_said))) return "Cannot be said";
  if (all(is(Finding::costs_more))) return "No";
  return fmt::format("Not shown with {} runs an arm", fewest_pairs(a));
}

std::string headline(const Plan& plan, const Analysis& a, const std::vector<ArmAnswer>& arms) {
  if (arms.empty()) return "Nothing to compare yet.";
  std::vector<std::string> parts, open, dearer, unknown;
  for (const ArmAnswer& arm : arms) {
    if (arm.finding == Finding::saves || arm.finding == Finding::saves_at_lower_f1)
      parts.push_back(claim(plan, a, arm));
    if (arm.finding == Finding::no_saving_shown) open.push_back(not_shown(a, arm.arm));
    if (arm.finding == Finding::costs_more) dearer.push_back(arm.arm);
    if (arm.finding == Finding::cannot_be_said) unknown.push_back(arm.arm);
  }
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) parts.push_back(fmt::format("{} {}", what, fmt::join(names, ", ")));
  };
  add("no saving is shown for", open);
  add("more energy than the baseline is used by", dearer);
  add("nothing can be said of", unknown);
  add("less energy to the target F1 is needed by", cheaper_to_target(a));
  return fmt::format("{}, against {}: {}.", opening(a, arms), a.arms[0].name,
                     fmt::join(parts, "; "));
}

// Whether the intervals lie inside the goal, or the means alone do.
bool goal_shown(const Goal& goal, const Comparison& energy, const Comparison& f1) {
  return energy.saving_percent->interval && f1.paired_t &&
         energy.saving_percent->interval->low >= goal.saving_percent &&
         100 * f1.paired_t->interval.high <= goal.f1_points;  // of baseline - arm
}

std::string goal_sentence(const Goal& goal, const Analysis& a, const std::vector<ArmAnswer>& arms) {
  const std::string what =
      fmt::format("Goal: at least {:.0f} % less energy at a micro F1 at most {:.1f} points lower",
                  goal.saving_percent, goal.f1_points);
  if (a.arms.size() < 2) return what + ": not judged yet.";
  const Contrast *energy = a.contrast(a.arms[1].name, Metric::energy_j),
                 *f1 = a.contrast(a.arms[1].name, Metric::micro_f1);
  if (!energy || !f1 || !energy->comparison.saving_percent || !a.obstacles[1].empty())
    return what + ": not to be judged.";
  if (!a.arms[1].trains_unequally.empty() && !as_good(arms[0].f1))
    return fmt::format(
        "{}: not to be judged, as the arms differ in {}, and F1 is not shown to be "
        "the same or higher.",
        what, a.arms[1].trains_unequally);
  const double saving = energy->comparison.saving_percent->value;
  const double points = 100 * (f1->comparison.b.mean - f1->comparison.a.mean);
  const bool reached = saving >= goal.saving_percent && points >= -goal.f1_points;
  const char* how = !reached ? ""
                    : goal_shown(goal, energy->comparison, f1->comparison)
                        ? "; the 95 % intervals lie within it"
                        : "; the 95 % intervals do not show it";
  return fmt::format("{}: {} in the means of {} pairs of runs ({:.1f} % less, {:+.2f} points{}).",
                     what, reached ? "reached" : "not reached", energy->comparison.a.n, saving,
                     points, how);
}

bool runs_without_partner(const Analysis& a) {
  return std::any_of(a.contrasts.begin(), a.contrasts.end(), [&](const Contrast& c) {
    return c.comparison.a.n < std::max(a.arms[0].runs.size(), a.arm(c.arm)->runs.size());
  });
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

void add_training_caveat(const Analysis& a, std::vector<std::string>& caveats) {
  std::vector<std::string> unequal;
  for (const ArmResult& arm : a.arms)
    if (!arm.trains_unequally.empty())
      unequal.push_back(fmt::format("{} ({})", arm.name, arm.trains_unequally));
  if (!unequal.empty())
    caveats.push_back(
        fmt::format("Arms train unequally, against {}: {}. Compared are joules at an F1 that is "
                    "shown to be the same or higher, and joules to the target F1.",
                    a.arms[0].name, fmt::join(unequal, ", ")));
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
  else if (const std::size_t pairs = fewest_pairs(a); pairs < kFewestForWilcoxon)
    caveats.push_back(fmt::format(
        "With {} pairs of runs, fewer than {}, intervals are rough, normality can hardly be "
        "rejected, and Wilcoxon cannot get below p = {:.4g}.",
        pairs, kFewestForWilcoxon, std::exp2(1 - static_cast<double>(pairs))));
  if (runs_without_partner(a))
    caveats.push_back(
        "Runs of a seed that the baseline or the arm lacks are described, but not compared.");
  return caveats;
}

}  // namespace

Answer answer(const Plan& plan, const Analysis& analysis) {
  Answer result;
  for (std::size_t i = 1; i < analysis.arms.size() && !analysis.obstacles.empty(); ++i) {
    ArmAnswer arm = judge_arm(plan, analysis, analysis.arms[i], analysis.obstacles[i]);
    arm.to_target = target_sentence(analysis, analysis.arms[i]);
    result.arms.push_back(std::move(arm));
  }
  result.headline = headline(plan, analysis, result.arms);
  if (plan.goal) result.goal = goal_sentence(*plan.goal, analysis, result.arms);
  result.caveats = caveats_of(plan, analysis);
  add_training_caveat(analysis, result.caveats);
  add_cpu_caveat(analysis, result.caveats);
  return result;
}

}  // namespace hg::experiment
