#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tensor/base/enum_names.h"
#include "train/experiment/results.h"

namespace hg::experiment {
namespace {

using Json = nlohmann::ordered_json;
using statistics::ArmSummary;
using statistics::Comparison;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
// Null where there is none.
template <class T>
const T* address(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}
Json low(const statistics::Interval* i) { return i ? Json(i->low) : Json(); }
Json high(const statistics::Interval* i) { return i ? Json(i->high) : Json(); }

Json run_json(const RunFigures& r, const std::optional<Target>& target) {
  const double joules = r.energy_j.value, f1 = *r.micro_f1;
  const auto flops = static_cast<double>(r.flops), images = static_cast<double>(r.images);
  Json json{{"arm", r.arm},
            {"seed", r.seed},
            {"folder", r.folder},
            {"energy_j", joules},
            {"energy_low_j", r.energy_j.low},
            {"energy_high_j", r.energy_j.high},
            {"energy_kind", r.energy_kind},
            {"energy_source", r.energy_source},
            {"micro_f1", f1},
            {"macro_f1", *r.macro_f1},
            {"accuracy", *r.accuracy},
            {"seconds", r.seconds},
            {"flops", flops},
            {"flops_matmul", static_cast<double>(r.flops_matmul)},
            {"images", images},
            {"tokens", r.tokens},
            {"epochs", r.epochs},
            {"co2_g", r.co2_g},
            {"joules_per_image", images > 0 ? Json(joules / images) : Json()},
            {"joules_per_gflop", flops > 0 ? Json(joules / (flops * 1e-9)) : Json()},
            {"energy_delay_js", statistics::energy_delay_product(joules, r.seconds)},
            {"kwh_per_f1", f1 > 0 ? Json(statistics::energy_per_f1_kwh(joules, f1)) : Json()}};
  if (target) {
    const statistics::EnergyToTarget t = r.to_target(target->f1);
    json["target_reached"] = t.reached;  // else the two figures are censored: no value
    json["energy_to_target_j"] = t.reached ? Json(t.energy_j) : Json();
    json["flops_to_target"] = t.reached ? Json(t.flops) : Json();
    json["epochs_to_target"] = t.reached ? Json(t.epoch) : Json();
  }
  for (const statistics::EvaluationPoint& e : r.evaluations)
    json["evaluations"].push_back(
        {{"epoch", e.epoch}, {"energy_j", e.energy_j}, {"flops", e.flops}, {"f1", e.f1}});
  return json;
}

Json summary_json(const ArmSummary& s) {
  return {{"n", s.n},
          {"mean", s.mean},
          {"sd", or_null(s.sd)},
          {"mean_low", low(address(s.mean_interval))},
          {"mean_high", high(address(s.mean_interval))},
          {"median", s.median},
          {"quartile_low", s.quartiles.low},
          {"quartile_high", s.quartiles.high},
          {"shapiro_w", s.shapiro ? Json(s.shapiro->w) : Json()},
          {"shapiro_p", s.shapiro ? Json(s.shapiro->p) : Json()},
          {"shapiro_refusal", s.shapiro_refusal}};
}

Json arm_json(const Plan& plan, const ArmResult& arm) {
  Json json{{"arm", arm.name}, {"title", arm.title}, {"runs", arm.runs.size()}};
  for (const Arm& planned : plan.arms)
    if (planned.name == arm.name) json["config"] = to_toml(planned.config);
  for (const Metric metric : kMetrics)
    json[std::string(enum_name(metric))] =
        arm.summary(metric) ? summary_json(*arm.summary(metric)) : Json();
  json["flops"] = arm.mean_flops;
  json["tokens_per_image"] = arm.mean_tokens_per_image;
  json["target"] = {{"reached", arm.to_target.reached},
                    {"censored", arm.runs.size() - arm.to_target.reached},
                    {"mean_epochs", or_null(arm.to_target.mean_epochs)},
                    {"mean_energy_j", or_null(arm.to_target.mean_energy_j)},
                    {"mean_flops", or_null(arm.to_target.mean_flops)}};
  json["pareto"] = arm.pareto;
  return json;
}

// Beside the saving in joules, and exact: low and high are the seeds' least and largest.
Json flops_saving_json(const FlopsSaving* saved) {
  return {{"flops_saving_percent", saved ? Json(saved->percent) : Json()},
          {"flops_saving_low", low(saved ? &saved->range : nullptr)},
          {"flops_saving_high", high(saved ? &saved->range : nullptr)}};
}

Json contrast_json(const Contrast& contrast) {
  const Comparison& c = contrast.comparison;
  const bool saves = contrast.metric != Metric::micro_f1;  // an F1 is not saved
  const statistics::Estimate* saving = saves ? address(c.saving_percent) : nullptr;
  const statistics::Interval* saved = saving ? address(saving->interval) : nullptr;
  const statistics::Interval* difference = c.paired_t ? &c.paired_t->interval : nullptr;
  const statistics::Equivalence* equivalence = address(c.equivalence);
  const statistics::Interval* of_medians = address(c.median_difference.interval);
  return {{"baseline", c.a.name},
          {"arm", contrast.arm},
          {"metric", enum_name(contrast.metric)},
          {"pairs", c.differences.n},
          {"saving_percent", saving ? Json(saving->value) : Json()},
          {"low", low(saved)},
          {"high", high(saved)},
          {"interval_refusal", c.interval_refusal},
          {"difference", c.differences.mean},  // baseline - arm
          {"difference_low", low(difference)},
          {"difference_high", high(difference)},
          {"median_difference", c.median_difference.value},
          {"median_difference_low", low(of_medians)},
          {"median_difference_high", high(of_medians)},
          {"test", enum_name(c.test)},
          {"reason", c.reason},
          {"p", c.p},
          {"p_holm", contrast.p_holm},
          {"difference_shapiro_w", c.differences.shapiro ? Json(c.differences.shapiro->w) : Json()},
          {"difference_shapiro_p", c.differences.shapiro ? Json(c.differences.shapiro->p) : Json()},
          {"paired_t", c.paired_t ? Json(c.paired_t->t) : Json()},
          {"paired_t_df", c.paired_t ? Json(c.paired_t->df) : Json()},
          {"paired_t_p", c.paired_t ? Json(c.paired_t->p) : Json()},
          {"wilcoxon", c.wilcoxon.statistic},
          {"wilcoxon_p", c.wilcoxon.p},
          {"wilcoxon_exact", c.wilcoxon.exact},
          // Asked of the F1 alone, where there is a margin.
          {"margin", equivalence ? Json(equivalence->margin) : Json()},
          {"tost_p", equivalence ? Json(equivalence->p) : Json()},
          {"tost_low", low(equivalence ? &equivalence->interval : nullptr)},  // 90 %
          {"tost_high", high(equivalence ? &equivalence->interval : nullptr)},
          {"equivalent", saves ? Json() : Json(c.equivalent)},
          {"welch_t", c.welch ? Json(c.welch->t) : Json()},
          {"welch_df", c.welch ? Json(c.welch->df) : Json()},
          {"welch_p", c.welch ? Json(c.welch->p) : Json()},
          {"mann_whitney_u", c.mann_whitney.statistic},
          {"mann_whitney_p", c.mann_whitney.p},
          {"mann_whitney_exact", c.mann_whitney.exact},
          {"hedges_g", or_null(c.hedges_g)},
          {"a12", c.a12},
          {"cliff_delta", c.cliff_delta},
          {"cliff_label", c.cliff_label},
          {"caveats", c.caveats}};
}

// What making the page anew takes beside the rest.
Json plan_json(const Plan& plan) {
  Json titles = Json::object();
  for (const Arm& arm : plan.arms) titles[arm.name] = arm.title;
  Json goal;
  if (plan.goal)
    goal = {{"saving_percent", plan.goal->saving_percent}, {"f1_points", plan.goal->f1_points}};
  return {{"called", plan.called},
          {"target_f1", or_null(plan.target_f1)},
          {"target_from", plan.target_from},
          {"goal", goal},
          {"titles", titles}};
}

Json answer_json(const Answer& answer) {
  Json arms = Json::array();
  for (const ArmAnswer& arm : answer.arms)
    arms.push_back({{"arm", arm.arm},
                    {"finding", enum_name(arm.finding)},
                    {"f1", enum_name(arm.f1)},
                    {"text", arm.text},
                    {"to_target", arm.to_target}});
  return {{"headline", answer.headline},
          {"arms", arms},
          {"goal", answer.goal},
          {"caveats", answer.caveats}};
}

}  // namespace

std::string to_json(const Results& r, int indent) {
  const Analysis& a = r.analysis;
  Json runs = Json::array(), arms = Json::array(), comparisons = Json::array();
  for (const ArmResult& arm : a.arms) {
    for (const RunFigures& run : arm.runs) runs.push_back(run_json(run, a.target));
    arms.push_back(arm_json(r.plan, arm));
  }
  for (const Contrast& contrast : a.contrasts) {
    comparisons.push_back(contrast_json(contrast));
    if (contrast.metric == Metric::energy_j)
      comparisons.back().update(flops_saving_json(address(a.arm(contrast.arm)->flops_saving)));
    comparisons.back()["trains_unequally"] = a.arm(contrast.arm)->trains_unequally;
  }
  Json json{{"experiment", r.plan.experiment},
            {"scale", r.plan.scale},
            {"question", r.plan.question},
            {"status", r.status},
            {"plan", plan_json(r.plan)},
            {"repeats", r.plan.repeats},
            {"first_seed", r.plan.first_seed},
            {"settings", r.plan.settings},
            {"margin_points", r.plan.margin_points},
            {"baseline", r.plan.arms[0].name},
            {"machine", r.machine},
            {"target", nullptr},
            {"answer", answer_json(r.answer)},
            {"comparisons", comparisons},
            {"arms", arms},
            {"runs", runs}};
  if (a.target) json["target"] = {{"micro_f1", a.target->f1}, {"rule", a.target->rule}};
  return json.dump(indent);
}

}  // namespace hg::experiment
