#include "train/statistics/compare.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/base/error.h"
#include "tests/train/statistics/samples.h"

namespace hg::statistics {
namespace {

const Arm kBaseline = {"softmax", kA};
const Arm kVariant = {"gmm", kB};
const Arm kSkewed = {"zero",
                     {20.25, 20.31, 20.18, 20.40, 20.22, 20.27, 20.35, 20.15, 20.29, 21.90}};

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("two normal arms are compared by their means") {
  const Comparison c = compare(kBaseline, kVariant);
  CHECK(c.test == Test::welch);
  CHECK(c.test == Test::welch);
  CHECK(c.p == doctest::Approx(0.00392668597).epsilon(1e-9));
  CHECK(mentions(c.reason, "in neither arm"));
  CHECK(c.caveats.empty());
  // Both ways are there.
  CHECK(c.p == c.welch->p);
  CHECK(c.mann_whitney.p == doctest::Approx(0.00432900433).epsilon(1e-9));
  CHECK_FALSE(c.wilcoxon);
  CHECK(*c.hedges_g == doctest::Approx(2.27884936).epsilon(1e-8));
  CHECK(c.a12 == doctest::Approx(35.0 / 36));
  CHECK(c.cliff_delta == doctest::Approx(34.0 / 36));
  CHECK(c.cliff_label == "large");
}

TEST_CASE("an arm is summed up with all a report prints") {
  const ArmSummary arm = compare(kBaseline, kVariant).a;
  CHECK(arm.name == "softmax");
  CHECK(arm.n == 6);
  CHECK(arm.mean == doctest::Approx(mean(kA)));
  CHECK(*arm.sd == doctest::Approx(standard_deviation(kA)));
  CHECK(arm.median == doctest::Approx(20.26));
  CHECK(arm.quartiles.low == quartiles(kA).low);
  CHECK(arm.mean_interval->high == t_interval(kA, 0.95).high);
  CHECK(arm.shapiro->w == shapiro_wilk(kA).w);
  CHECK(arm.shapiro->p == shapiro_wilk(kA).p);
  CHECK(arm.shapiro_refusal.empty());
}

TEST_CASE("the saving is that of b against a, with an interval around it") {
  const Arm baseline = {"a", {100, 104, 97, 101, 98}}, half = {"b", {50, 52, 48.5, 50.5, 49}};
  const Comparison c = compare(baseline, half);
  CHECK(c.saving_percent->value == doctest::Approx(50));
  CHECK(c.saving_percent->interval->low < 50);
  CHECK(c.saving_percent->interval->low > 45);
  CHECK(c.saving_percent->interval->high > 50);
  CHECK(c.saving_percent->interval->high < 55);
  CHECK(c.a12 == 1);
  CHECK(c.median_difference.value == 50);
  CHECK(c.median_difference.interval->low < 50);
  CHECK(c.median_difference.interval->high > 50);
  const Comparison worse = compare(half, baseline);
  CHECK(worse.saving_percent->value == doctest::Approx(-100));
  CHECK(worse.saving_percent->interval->high < 0);
}

TEST_CASE("one arm far from normal makes the procedure rank") {
  const Comparison c = compare(kBaseline, kSkewed);
  CHECK(c.test == Test::mann_whitney);
  CHECK(c.p == c.mann_whitney.p);
  CHECK(mentions(c.reason, "zero: Shapiro-Wilk rejects normality"));
  CHECK_FALSE(mentions(c.reason, "softmax"));
  CHECK(c.welch);
  CHECK(compare(kSkewed, kBaseline).test == Test::mann_whitney);
}

TEST_CASE("arms paired by seed are ranked by their differences") {
  Arm paired = kSkewed;
  for (double& v : paired.values) v -= 0.001 * v;
  const Comparison c = compare(kSkewed, paired, {.paired = true});
  CHECK(c.test == Test::wilcoxon);
  CHECK(c.test == Test::wilcoxon);
  CHECK(c.p == wilcoxon(kSkewed.values, paired.values).p);
  CHECK(c.p == doctest::Approx(std::exp2(-9)));
  CHECK(c.p < c.mann_whitney.p);
  CHECK(compare(kBaseline, kVariant, {.paired = true}).test == Test::welch);
  CHECK_THROWS_WITH_AS(compare(kBaseline, kSkewed, {.paired = true}),
                       "compare: softmax has 6 runs and zero has 10, expected pairs", Error);
}

TEST_CASE("a constant arm is said to be so, not taken for normal") {
  const Arm same = {"flops", std::vector<double>(6, 7.0)};
  const Comparison c = compare(kBaseline, same);
  CHECK(c.test == Test::mann_whitney);
  CHECK(mentions(c.reason, "flops: constant sample"));
  CHECK_FALSE(c.b.shapiro);
  CHECK(mentions(c.b.shapiro_refusal, "constant sample"));
  CHECK(c.welch);
  CHECK_FALSE(c.saving_percent->interval);
  CHECK_FALSE(c.median_difference.interval);
  CHECK(mentions(c.interval_refusal, "flops: constant sample"));
  const Comparison both = compare(same, same);
  CHECK(both.p == 1);
  CHECK(both.a12 == 0.5);
  CHECK(both.saving_percent->value == 0);
  CHECK_FALSE(both.welch);
  CHECK_FALSE(both.hedges_g);
}

TEST_CASE("few runs are compared as far as they go, and the result says so") {
  const Comparison three = compare({"a", {5, 6, 8}}, {"b", {1, 1, 2}});
  CHECK(three.caveats.size() == 3);
  CHECK(three.caveats[0] == "a has 3 runs, expected 5 or more");
  CHECK(three.test == Test::mann_whitney);
  CHECK(three.caveats[2] == "with 3 and 3 runs this test cannot get below p = 0.1");
  CHECK(three.saving_percent->interval);
  const Comparison one = compare({"a", {5}}, {"b", {1}});
  CHECK(one.p == 1);
  CHECK_FALSE(one.a.sd);
  CHECK_FALSE(one.a.mean_interval);
  CHECK_FALSE(one.welch);
  CHECK(one.saving_percent->value == doctest::Approx(80));
  CHECK(mentions(one.reason, "a: 1 values, Shapiro-Wilk takes 3 to 5000"));
}

TEST_CASE("figures that are not positive have no saving") {
  const Comparison c = compare({"a", {0, 1, 2, 4, 5}}, {"b", {1, 2, 3, 5, 5.5}});
  CHECK_FALSE(c.saving_percent);
  CHECK(c.median_difference.interval);
}

TEST_CASE("alpha sets the choice and the width of all intervals") {
  const Comparison strict = compare(kBaseline, kVariant, {.alpha = 0.01});
  const Comparison usual = compare(kBaseline, kVariant);
  CHECK(strict.a.mean_interval->high > usual.a.mean_interval->high);
  CHECK(strict.welch->interval.high > usual.welch->interval.high);
  CHECK(strict.saving_percent->interval->high > usual.saving_percent->interval->high);
  // p of Shapiro-Wilk is 0.0067 here.
  const Arm weights = {"weights", {148, 154, 158, 160, 161, 162, 166, 170, 182, 195, 236}};
  CHECK(compare(weights, kBaseline).test == Test::mann_whitney);
  CHECK(compare(weights, kBaseline, {.alpha = 0.005}).test == Test::welch);
}

TEST_CASE("values that are none are errors that name the arm") {
  CHECK_THROWS_WITH_AS(compare(kBaseline, {"gmm", {1, std::nan(""), 3}}),
                       "gmm: value 2 of 3 is nan, expected finite numbers", Error);
  CHECK_THROWS_WITH_AS(compare({"softmax", {}}, kVariant), "softmax: 0 values, expected at least 1",
                       Error);
  CHECK_THROWS_AS(compare(kBaseline, kVariant, {.alpha = 0}), Error);
}

}  // namespace hg::statistics
