// The words follow from the numbers.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/train/experiment/synthetic.h"

namespace hg::experiment {
namespace {

using Json = nlohmann::json;

const std::vector<double> kEnergies{100, 101, 99, 100.5, 99.5}, kF1{0.90, 0.902, 0.898};

std::vector<double> scaled(std::vector<double> values, double factor, double shift = 0) {
  for (double& v : values) v = v * factor + shift;
  return values;
}

Plan quick(std::int64_t repeats = 5) { return make_plan({"quick", "smoke", {}, repeats}); }

Results with(const std::vector<double>& energies, const std::vector<double>& f1,
             const Plan& plan = quick()) {
  return synthetic_results(plan, synthetic_runs("vit", kEnergies, kF1),
                           synthetic_runs("hugginggreen", energies, f1));
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("a saving with the same F1 is a yes") {
  const Results r = with(scaled(kEnergies, 0.7), kF1);
  REQUIRE(r.answer.arms.size() == 1);
  CHECK(r.answer.arms[0].finding == Finding::saves);
  CHECK(says(r.answer.headline, "Yes, against vit"));
  CHECK(says(r.answer.arms[0].text, "saves 30.0 % of the energy (95 % interval"));
  CHECK(says(r.answer.arms[0].text, "no difference shown"));
  CHECK(says(r.answer.goal, ": reached"));
  CHECK(says(r.answer.caveats.at(0), "modelled"));
}

TEST_CASE("runs that other work held up are a caveat") {
  std::vector<RunFigures> held_up = synthetic_runs("hugginggreen", kEnergies, kF1);
  for (RunFigures& run : held_up) run.cpu_share = 0.95;
  const auto caveats = [&] {
    return synthetic_results(quick(), synthetic_runs("vit", kEnergies, kF1), held_up)
        .answer.caveats;
  };
  for (const std::string& caveat : caveats()) CHECK_FALSE(says(caveat, "cores"));
  held_up[1].cpu_share = 0.5;
  held_up[2].cpu_share = 0.8;
  CHECK(says(caveats().back(),
             "2 of 10 runs got less than 90 % of the cores they asked for, one of "
             "them 50 %"));
}

TEST_CASE("a saving at a lower F1 says so, and misses the goal") {
  const Results r = with(scaled(kEnergies, 0.7), scaled(kF1, 1, -0.02));
  CHECK(r.answer.arms[0].finding == Finding::saves_at_lower_f1);
  CHECK(says(r.answer.headline, "at a lower F1 by hugginggreen"));
  CHECK(says(r.answer.arms[0].text, "2.00 points lower"));
  CHECK(says(r.answer.goal, ": not reached"));
}

TEST_CASE("too small a saving misses the goal") {
  const Results r = with(scaled(kEnergies, 0.8), kF1);
  CHECK(r.answer.arms[0].finding == Finding::saves);
  CHECK(says(r.answer.goal, ": not reached"));
}

TEST_CASE("an interval that holds 0 shows no saving") {
  const Results r = with({90, 110, 95, 104, 98}, kF1);
  CHECK(r.answer.arms[0].finding == Finding::no_saving_shown);
  CHECK(says(r.answer.headline, "No saving shown"));
  CHECK(says(r.answer.arms[0].text, "No saving shown"));
}

TEST_CASE("more energy is called more") {
  const Results r = with(scaled(kEnergies, 1.1), kF1);
  CHECK(r.answer.arms[0].finding == Finding::costs_more);
  CHECK(says(r.answer.arms[0].text, "uses 10.0 % more energy"));
  CHECK(says(r.answer.headline, "more energy than the baseline is used by hugginggreen"));
}

TEST_CASE("too few runs leave the question open") {
  const Results two = synthetic_results(quick(2), synthetic_runs("vit", {100, 101}, kF1),
                                        synthetic_runs("hugginggreen", {70, 71}, kF1));
  CHECK(two.answer.arms[0].finding == Finding::cannot_be_said);
  CHECK(says(two.answer.headline, "Cannot be said"));
  CHECK(says(two.answer.arms[0].text, "there is no interval"));
  CHECK(says(two.answer.caveats.back(), "fewer than 3"));
  const Results one = synthetic_results(quick(1), synthetic_runs("vit", {100}, kF1),
                                        synthetic_runs("hugginggreen", {70}, kF1));
  CHECK(one.answer.arms[0].finding == Finding::cannot_be_said);
  const Results three = with(scaled({100, 101, 99}, 0.7), kF1, quick(3));
  CHECK(three.answer.arms[0].finding == Finding::saves);
  CHECK(says(three.answer.caveats.back(), "cannot get below p = 0.1"));
  const Results none = synthetic_results(quick(), {}, {});
  CHECK(says(none.answer.headline, "Nothing to compare yet"));
  const Results alone = synthetic_results(quick(), {}, synthetic_runs("hugginggreen", {1}, kF1));
  CHECK(says(alone.answer.headline, "Nothing to compare yet"));
}

TEST_CASE("unequal settings or kinds of energy forbid the claim") {
  Plan plan = quick();
  plan.arms[1].config.phases[0].train.epochs += 1;
  const Results r = with(scaled(kEnergies, 0.5), kF1, plan);
  CHECK(r.answer.arms[0].finding == Finding::cannot_be_said);
  CHECK(says(r.answer.arms[0].text, "No claim of a saving"));
  CHECK(says(r.answer.arms[0].text, "epochs"));
  CHECK(says(r.answer.goal, "not to be judged"));

  auto other = synthetic_runs("hugginggreen", scaled(kEnergies, 0.5), kF1);
  other[2].energy_kind = "measured";
  const Results mixed = synthetic_results(quick(), synthetic_runs("vit", kEnergies, kF1), other);
  CHECK(says(mixed.answer.arms[0].text, "kind of energy, modelled and measured"));
}

TEST_CASE("energy to a target is compared where every run reaches it") {
  const Results all = with(scaled(kEnergies, 0.7), kF1);
  CHECK(all.analysis.target->f1 ==
        doctest::Approx(0.99 * all.analysis.arms[0].summary(Metric::micro_f1)->mean));
  CHECK(all.analysis.arms[1].to_target.reached == 5);
  CHECK(all.analysis.arms[1].to_target.mean_epochs == 2.0);
  CHECK(says(all.answer.arms[0].to_target, "30.0 % less energy to the target"));
  CHECK(says(all.answer.headline, "; less energy to the target F1 is needed by hugginggreen."));

  const Results censored = with(scaled(kEnergies, 0.7), {0.9, 0.5});
  CHECK(censored.analysis.arms[1].to_target.reached == 3);
  CHECK(censored.analysis.contrast("hugginggreen", Metric::energy_to_target_j) == nullptr);
  CHECK(says(censored.answer.arms[0].to_target, "3 of 5 runs"));
  CHECK(says(censored.answer.arms[0].to_target, "censored"));
  CHECK(!says(censored.answer.headline, "target"));

  Plan given = quick();
  given.target_f1 = 0.79;  // reached in the first epoch
  const Results early = with(scaled(kEnergies, 0.7), kF1, given);
  CHECK(early.analysis.arms[0].to_target.mean_epochs == 1.0);
}

TEST_CASE("several arms are corrected for being several, and the best lie on the front") {
  const Plan plan = make_plan({"rq2", "smoke", {}, 5});
  std::vector<RunFigures> others;
  const auto add = [&](const char* arm, double factor, double shift) {
    for (const RunFigures& run :
         synthetic_runs(arm, scaled(kEnergies, factor), scaled(kF1, 1, shift)))
      others.push_back(run);
  };
  add("contrast-drop", 0.8, 0);
  add("variance-drop", 0.9, -0.05);  // beaten in both
  add("entropy-zero", 1.0, 0);
  const Results r = synthetic_results(plan, synthetic_runs("none", kEnergies, kF1), others);
  CHECK(r.analysis.arms.size() == 4);
  for (const Contrast& c : r.analysis.contrasts) CHECK(c.p_holm >= c.comparison.p);
  CHECK(r.analysis.arms[1].pareto);
  CHECK(!r.analysis.arms[2].pareto);
  CHECK(says(r.answer.headline, "Yes, in part"));
  CHECK(says(r.answer.headline, "no saving is shown for entropy-zero"));
  CHECK(says(r.answer.caveats.at(1), "not finished"));  // three arms have no runs
}

TEST_CASE("results.json holds every figure and test") {
  const Json json = Json::parse(to_json(with(scaled(kEnergies, 0.7), kF1)));
  REQUIRE(json["runs"].size() == 10);
  for (const char* key :
       {"arm", "seed", "folder", "energy_j", "energy_kind", "energy_source", "micro_f1", "macro_f1",
        "accuracy", "seconds", "flops", "images", "tokens", "epochs", "energy_to_target_j",
        "epochs_to_target", "evaluations"})
    CHECK(json["runs"][0].contains(key));
  for (const char* key : {"shapiro_w", "shapiro_p", "mean", "sd", "median"})
    CHECK(json["arms"][1]["energy_j"][key].is_number());
  const Json& c = json["comparisons"][0];
  CHECK(c["metric"] == "energy_j");
  for (const char* key : {"saving_percent", "low", "high", "welch_p", "mann_whitney_p", "a12", "p",
                          "p_holm", "hedges_g"})
    CHECK(c[key].is_number());
  CHECK(c["saving_percent"].get<double>() == doctest::Approx(30));
  CHECK(c["low"].get<double>() < 30);
  CHECK(c["high"].get<double>() > 30);
  CHECK(c["a12"] == 1.0);
  CHECK(c["test"] == "welch");
  CHECK(c["reason"].get<std::string>() != "");
  CHECK(json["answer"]["arms"][0]["finding"] == "saves");

  const Json few = Json::parse(to_json(synthetic_results(
      quick(1), synthetic_runs("vit", {100}, kF1), synthetic_runs("hugginggreen", {70}, kF1))));
  CHECK(few["comparisons"][0]["welch_p"].is_null());
  CHECK(few["comparisons"][0]["low"].is_null());
  CHECK(few["arms"][0]["energy_j"]["shapiro_w"].is_null());
}

TEST_CASE("the page refers to nothing outside and shows what it must") {
  const Results r = with(scaled(kEnergies, 0.7), kF1);
  const std::string page = to_page(r);
  for (const char* outside : {"http:", "https:", "src=", "@import", "url("})
    CHECK(page.find(outside) == std::string::npos);
  for (const char* part :
       {"Pareto front", "Welch", "Mann-Whitney", "modelled", "a made-up meter &lt;&amp;&gt;",
        "runs/vit-1/report.html", "Energy to a micro F1", "a machine"})
    CHECK(says(page, part));
  CHECK(page.ends_with("</html>\n"));
  CHECK(says(page, r.answer.goal.substr(0, 20)));
  const std::string table = to_table(r);
  for (const char* part : {"hugginggreen", "30.0 (", "Energy modelled", "Goal"})
    CHECK(says(table, part));
  to_page(synthetic_results(quick(), {}, {}));  // nothing yet: no fault
}

}  // namespace
}  // namespace hg::experiment
