// The words follow from the numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/train/experiment/synthetic.h"

namespace hg::experiment {
namespace {

using Json = nlohmann::json;

const std::vector<double> kEnergies{100, 101, 99, 100.5, 99.5};
const std::vector<double> kF1{0.90, 0.902, 0.898, 0.901, 0.899};
// The mean of kF1, and no pair further away than 0.15 points.
const std::vector<double> kSameF1{0.901, 0.9015, 0.8985, 0.8995, 0.8995};

std::vector<double> shifted(std::vector<double> values, double shift) {
  for (double& v : values) v += shift;
  return values;
}

// The baseline's energies times a factor, with noise of mean 0.
std::vector<double> scaled(std::vector<double> values, double factor) {
  constexpr double kNoise[] = {0.4, -0.5, 0.1, 0.3, -0.3};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i] * factor + kNoise[i];
  return values;
}

Plan quick(std::int64_t repeats = 5) {
  Plan plan = make_plan({"quick", "smoke", {}, repeats});
  plan.goal = Goal{25, 0.5};
  return plan;
}

Results with(const std::vector<double>& energies, const std::vector<double>& f1,
             const Plan& plan = quick()) {
  return synthetic_results(plan, synthetic_runs("vit", kEnergies, kF1),
                           synthetic_runs("hugginggreen", energies, f1));
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("a saving at an equivalent F1 is a yes") {
  const Results r = with(scaled(kEnergies, 0.7), kSameF1);
  REQUIRE(r.answer.arms.size() == 1);
  CHECK(r.answer.arms[0].finding == Finding::saves);
  CHECK(r.answer.arms[0].f1 == F1Finding::equivalent);
  CHECK(r.answer.headline.starts_with(
      "Yes, against vit: hugginggreen saves 30.0 % of the energy at the same F1 (within 0.5 "
      "points)"));
  CHECK(says(r.answer.arms[0].text, "saves 30.0 % of the energy (95 % interval"));
  CHECK(says(r.answer.arms[0].text, "paired t p < 0.001, Holm-corrected p < 0.001"));
  CHECK(says(r.answer.arms[0].text, ": the same within 0.5 points (TOST p < 0.001)"));
  CHECK(says(r.answer.goal, ": reached"));
  CHECK(says(r.answer.goal, "; the 95 % intervals lie within it"));
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

TEST_CASE("an interval above 0 that the test does not confirm is not shown") {
  // Every pair saves, one of three far more: Wilcoxon, which 3 pairs give p = 0.25 at best.
  const Results ranks = synthetic_results(quick(3), synthetic_runs("vit", {100, 101, 99}, kF1),
                                          synthetic_runs("hugginggreen", {98, 71, 97}, kF1));
  const Contrast& energy = *ranks.analysis.contrast("hugginggreen", Metric::energy_j);
  CHECK(energy.comparison.saving_percent->interval->low > 0);
  CHECK(energy.comparison.p == 0.25);
  CHECK(ranks.answer.arms[0].finding == Finding::no_saving_shown);
  CHECK(ranks.answer.headline ==
        "Not shown with 3 runs an arm, against vit: no saving is shown for hugginggreen (11.3 %, "
        "p = 0.250).");
  CHECK(says(ranks.answer.arms[0].text, "the corrected test does not confirm it"));
  CHECK(says(ranks.answer.caveats.back(), "Wilcoxon cannot get below p = 0.25"));
  // The same by the t-test.
  const Results means = synthetic_results(quick(3), synthetic_runs("vit", {100, 101, 99}, kF1),
                                          synthetic_runs("hugginggreen", {98, 71, 89}, kF1));
  CHECK(means.analysis.contrasts[0].comparison.test == statistics::Test::paired_t);
  CHECK(means.analysis.contrasts[0].p_holm > 0.2);
  CHECK(means.answer.headline.starts_with("Not shown with 3 runs an arm, against vit: "));
}

TEST_CASE("the same F1 is claimed by equivalence, not for want of a difference") {
  const std::vector<double> noisy{0.91, 0.893, 0.907, 0.892, 0.896};
  const Results r = with(scaled(kEnergies, 0.7), noisy);
  const statistics::Comparison& f1 =
      r.analysis.contrast("hugginggreen", Metric::micro_f1)->comparison;
  CHECK(f1.p > 0.5);
  CHECK(r.answer.arms[0].finding == Finding::saves);
  CHECK(r.answer.arms[0].f1 == F1Finding::not_shown);
  CHECK(r.answer.headline.starts_with("Yes, in part, against vit: "));
  CHECK(says(r.answer.headline, "but its F1 is not shown to be the same (within 0.5 points)"));
  CHECK(says(r.answer.arms[0].text, "not shown to be the same within 0.5 points (TOST p = "));
  CHECK(says(r.answer.goal, "; the 95 % intervals do not show it"));
  // A wider margin, set before, may show it.
  Plan wide = quick();
  wide.margin_points = 3;
  const Results within = with(scaled(kEnergies, 0.7), noisy, wide);
  CHECK(within.answer.arms[0].f1 == F1Finding::equivalent);
  CHECK(says(within.answer.headline, "at the same F1 (within 3 points)"));
  // Nor is it claimed where nothing can be tested.
  const Results equal = with(scaled(kEnergies, 0.7), kF1);
  CHECK(equal.answer.arms[0].f1 == F1Finding::not_shown);
  CHECK(says(equal.answer.arms[0].text, "as no test can be made"));
}

TEST_CASE("a saving at a lower F1 says so, and misses the goal") {
  const Results r = with(scaled(kEnergies, 0.7), shifted(kSameF1, -0.02));
  CHECK(r.answer.arms[0].finding == Finding::saves_at_lower_f1);
  CHECK(r.answer.arms[0].f1 == F1Finding::lower);
  CHECK(says(r.answer.headline, "Yes, in part"));
  CHECK(says(r.answer.headline, "at an F1 that is 2.0 points lower"));
  CHECK(says(r.answer.arms[0].text, "2.00 points lower"));
  CHECK(says(r.answer.goal, ": not reached"));
  // As far below in every pair: there is no interval, but it is lower.
  CHECK(with(scaled(kEnergies, 0.7), shifted(kF1, -0.02)).answer.arms[0].f1 == F1Finding::lower);
}

TEST_CASE("a saving at a higher F1 is a yes") {
  const Results r = with(scaled(kEnergies, 0.7), shifted(kSameF1, 0.02));
  CHECK(r.answer.arms[0].f1 == F1Finding::higher);
  CHECK(r.answer.headline.starts_with("Yes, against vit"));
  CHECK(says(r.answer.headline, "at an F1 that is 2.0 points higher"));
}

TEST_CASE("runs are paired by seed, in whatever order they come") {
  const auto runs = [](std::vector<std::int64_t> seeds) {
    std::vector<RunFigures> found;
    for (const std::int64_t seed : seeds) {
      constexpr double kNoise[] = {0.3, -0.4, 0.1, 0.2, -0.2, 0, 0, 0, 0};  // of mean 0
      const double joules = 70 + 10 * static_cast<double>(seed) + kNoise[seed - 1];
      found.push_back(synthetic_run("hugginggreen", seed, joules, 0.9));
    }
    return found;
  };
  std::vector<RunFigures> baseline;
  for (const std::int64_t seed : {1, 2, 3, 4, 5})
    baseline.push_back(synthetic_run("vit", seed, 75 + 10 * static_cast<double>(seed), 0.9));
  const Results sorted = synthetic_results(quick(), baseline, runs({1, 2, 3, 4, 5}));
  const Contrast& c = sorted.analysis.contrasts[0];
  CHECK(c.comparison.differences.mean == doctest::Approx(5));
  CHECK(c.p_holm < 0.001);
  CHECK(c.comparison.welch->p > 0.5);  // which sees no pairs
  const Results mixed = synthetic_results(quick(), baseline, runs({4, 1, 5, 3, 2}));
  CHECK(mixed.analysis.contrasts[0].comparison.p == c.comparison.p);
  CHECK(mixed.answer.headline == sorted.answer.headline);
  // Seeds that one of them lacks are not compared.
  const Results part = synthetic_results(quick(), baseline, runs({9, 3, 1, 2, 8}));
  CHECK(part.analysis.contrasts[0].comparison.differences.n == 3);
  CHECK(part.analysis.contrasts[0].comparison.a.mean == doctest::Approx(95));
  CHECK(part.analysis.arms[1].runs.size() == 5);
  CHECK(says(part.answer.caveats.back(), "described, but not compared"));
  const Results apart = synthetic_results(quick(), baseline, runs({6, 7, 8}));
  CHECK(apart.analysis.contrasts.empty());
  CHECK(says(apart.answer.arms[0].text, "Nothing to compare it with yet"));
  CHECK(says(apart.answer.headline, "Cannot be said"));
}

TEST_CASE("FLOPs saved are exact and stand beside the joules") {
  auto other = synthetic_runs("hugginggreen", scaled(kEnergies, 0.7), kSameF1);
  const auto baseline = synthetic_runs("vit", kEnergies, kF1);
  for (RunFigures& run : other) run.flops = 640'000'000;
  const Results same = synthetic_results(quick(), baseline, other);
  CHECK(same.analysis.arms[1].flops_saving->percent == doctest::Approx(36));
  CHECK(same.analysis.arms[1].flops_saving->range.low ==
        same.analysis.arms[1].flops_saving->range.high);
  CHECK(says(same.answer.arms[0].text, "; 36.0 % fewer FLOPs)"));
  CHECK(says(to_table(same), " 36.0 "));
  CHECK(says(to_page(same), "; FLOPs 36.0 %"));
  const Json json = Json::parse(to_json(same));
  CHECK(json["comparisons"][0]["flops_saving_percent"].get<double>() == doctest::Approx(36));
  CHECK(json["runs"][0]["flops_to_target"] == 1e9);
  CHECK(json["arms"][1]["target"]["mean_flops"].is_number());
  other[1].flops = 620'000'000;  // a draw of its own
  const Results drawn = synthetic_results(quick(), baseline, other);
  CHECK(says(drawn.answer.arms[0].text, "36.4 % fewer FLOPs, 36.0 to 38.0 % by seed"));
  const Json by_seed = Json::parse(to_json(drawn))["comparisons"][0];
  CHECK(by_seed["flops_saving_low"].get<double>() == doctest::Approx(36));
  CHECK(by_seed["flops_saving_high"].get<double>() == doctest::Approx(38));
}

TEST_CASE("too small a saving misses the goal") {
  const Results r = with(scaled(kEnergies, 0.8), kSameF1);
  CHECK(r.answer.arms[0].finding == Finding::saves);
  CHECK(says(r.answer.goal, ": not reached"));
}

TEST_CASE("an interval that holds 0 shows no saving") {
  const Results r = with({90, 110, 95, 104, 98}, kF1);
  CHECK(r.answer.arms[0].finding == Finding::no_saving_shown);
  CHECK(says(r.answer.headline, "Not shown with 5 runs an arm"));
  CHECK(says(r.answer.arms[0].text, "the interval holds 0"));
  CHECK(says(r.answer.arms[0].text, "No saving shown"));
}

TEST_CASE("more energy is called more") {
  const Results r = with(scaled(kEnergies, 1.1), kF1);
  CHECK(r.answer.arms[0].finding == Finding::costs_more);
  CHECK(says(r.answer.arms[0].text, "uses 10.0 % more energy"));
  CHECK(says(r.answer.headline, "No, against vit: more energy than the baseline is used by"));
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
  const Results three =
      synthetic_results(quick(3), synthetic_runs("vit", {100, 101, 99}, kF1),
                        synthetic_runs("hugginggreen", {70, 71.2, 69.5}, kSameF1));
  CHECK(three.answer.arms[0].finding == Finding::saves);
  CHECK(says(three.answer.caveats.back(), "cannot get below p = 0.25"));
  const Results none = synthetic_results(quick(), {}, {});
  CHECK(says(none.answer.headline, "Nothing to compare yet"));
  const Results alone = synthetic_results(quick(), {}, synthetic_runs("hugginggreen", {1}, kF1));
  CHECK(says(alone.answer.headline, "Nothing to compare yet"));
}

TEST_CASE("arms of unequal training are compared at the same F1 alone") {
  Plan plan = quick();
  plan.arms[1].config.phases[0].train.epochs = 3;
  const std::string differ = "the arms differ in epochs, 5 and 3";
  const Results same = with(scaled(kEnergies, 0.5), kSameF1, plan);
  CHECK(same.answer.arms[0].finding == Finding::saves);
  CHECK(
      same.answer.headline.starts_with("Yes, against vit: hugginggreen (epochs, 5 and 3) saves "
                                       "50.0 % of the energy at the same F1"));
  CHECK(says(same.answer.arms[0].text, differ));
  CHECK(says(same.answer.goal, ": reached"));
  CHECK(says(same.answer.headline, "; less energy to the target F1 is needed by hugginggreen."));
  const auto said = [](const Results& r) {
    return std::any_of(r.answer.caveats.begin(), r.answer.caveats.end(), [](const auto& caveat) {
      return caveat.starts_with(
          "Arms train unequally, against vit: hugginggreen (epochs, 5 and 3)");
    });
  };
  CHECK(said(same));
  CHECK(says(to_page(same), "Arms train unequally"));
  CHECK(Json::parse(to_json(same))["comparisons"][0]["trains_unequally"] == "epochs, 5 and 3");
  CHECK(with(scaled(kEnergies, 0.5), shifted(kSameF1, 0.02), plan).answer.arms[0].finding ==
        Finding::saves);
  // Lower, or not shown to be the same: less training needs less energy, which is no saving.
  const std::vector<double> noisy{0.91, 0.893, 0.907, 0.892, 0.896};
  for (const std::vector<double>& f1 : {shifted(kSameF1, -0.02), noisy}) {
    const Results r = with(scaled(kEnergies, 0.5), f1, plan);
    CHECK(r.answer.arms[0].finding == Finding::no_saving_shown);
    CHECK(r.answer.headline.starts_with("Not shown with 5 runs an arm, against vit: "));
    CHECK(says(r.answer.headline,
               "hugginggreen (50.0 %, p < 0.001; epochs, 5 and 3, F1 not shown to be the same)"));
    CHECK(says(r.answer.arms[0].text, differ + ", and F1 is not shown to be the same or higher"));
    CHECK(says(r.answer.goal, "not to be judged, as " + differ));
    CHECK(said(r));
  }
  CHECK(with(scaled(kEnergies, 1.1), kSameF1, plan).answer.arms[0].finding == Finding::costs_more);
}

TEST_CASE("unequal data or kinds of energy forbid the claim") {
  Plan plan = quick();
  plan.arms[1].config.phases[0].data.train_limit = 7;
  const Results r = with(scaled(kEnergies, 0.5), kF1, plan);
  CHECK(r.answer.arms[0].finding == Finding::cannot_be_said);
  CHECK(says(r.answer.arms[0].text, "No claim of a saving"));
  CHECK(says(r.answer.arms[0].text, "data"));
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
         synthetic_runs(arm, scaled(kEnergies, factor), shifted(kSameF1, shift)))
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
  CHECK(says(r.answer.headline, "no saving is shown for entropy-zero ("));
  CHECK(says(r.answer.caveats.at(1), "not finished"));  // three arms have no runs
}

TEST_CASE("the time left follows each arm's finished runs, or all where it has none") {
  CHECK(!seconds_of({"a"}, {}).has_value());
  std::vector<RunFigures> done = synthetic_runs("a", {100, 300}, {0.5});
  done.push_back(synthetic_run("b", 1, 800, 0.5));
  CHECK(*seconds_of({"a", "b", "b"}, done) == doctest::Approx(20 + 80 + 80));
  CHECK(*seconds_of({"c"}, done) == doctest::Approx(40));
  CHECK(*seconds_of({}, done) == 0);
}

TEST_CASE("results.json holds every figure and test") {
  const Json json = Json::parse(to_json(with(scaled(kEnergies, 0.7), kSameF1)));
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
                          "p_holm", "hedges_g", "pairs", "paired_t_p", "wilcoxon_p"})
    CHECK(c[key].is_number());
  CHECK(c["saving_percent"].get<double>() == doctest::Approx(30));
  CHECK(c["low"].get<double>() < 30);
  CHECK(c["high"].get<double>() > 30);
  CHECK(c["a12"] == 1.0);
  CHECK(c["test"] == "paired_t");
  CHECK(c["equivalent"].is_null());  // asked of the F1 alone
  const Json& f1 = json["comparisons"][1];
  CHECK(f1["metric"] == "micro_f1");
  CHECK(f1["tost_p"].get<double>() < 0.05);
  CHECK(f1["tost_high"].get<double>() < 0.005);
  CHECK(f1["equivalent"] == true);
  CHECK(f1["margin"].get<double>() == doctest::Approx(0.005));
  CHECK(json["margin_points"] == 0.5);
  CHECK(json["answer"]["arms"][0]["f1"] == "equivalent");
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
  for (const char* part : {"Pareto front", "paired t", "Wilcoxon", "TOST", "Welch", "Mann-Whitney",
                           "modelled", "a made-up meter &lt;&amp;&gt;", "runs/vit-1/report.html",
                           "Energy to a micro F1", "a machine"})
    CHECK(says(page, part));
  CHECK(page.ends_with("</html>\n"));
  CHECK(says(page, r.answer.goal.substr(0, 20)));
  const std::string table = to_table(r);
  for (const char* part : {"hugginggreen", "30.0 (", "GFLOP", "Energy modelled", "Goal"})
    CHECK(says(table, part));
  to_page(synthetic_results(quick(), {}, {}));  // nothing yet: no fault
}

}  // namespace
}  // namespace hg::experiment
