#include "train/statistics/compare.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/base/error.h"
#include "tests/train/statistics/samples.h"

namespace hg::statistics {
namespace {

const Arm kBaseline = {"softmax", kA};
const Arm kVariant = {"gmm", kB};
// Differences to kBaseline: five close to 0.1 and one of 3.
const Arm kOneFarOff = {"zero", {20.15, 20.2, 20.09, 20.28, 20.14, 17.27}};

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("normal differences are compared by their mean") {
  const Comparison c = compare(kBaseline, kVariant);
  CHECK(c.test == Test::paired_t);
  CHECK(c.p == doctest::Approx(0.0183512046671).epsilon(1e-9));
  CHECK(mentions(c.reason, "does not reject normality of the differences"));
  CHECK(c.caveats.empty());
  CHECK(c.differences.n == 6);
  CHECK(c.differences.mean == doctest::Approx(mean(kA) - mean(kB)));
  CHECK(c.differences.shapiro->p > 0.05);
  // All the others are there.
  CHECK(c.p == c.paired_t->p);
  CHECK(c.wilcoxon.p == 0.03125);
  CHECK(c.welch->p == doctest::Approx(0.00392668597).epsilon(1e-9));
  CHECK(c.mann_whitney.p == doctest::Approx(0.00432900433).epsilon(1e-9));
  CHECK_FALSE(c.equivalence);  // no margin, not asked
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
  const Arm baseline = {"a", {100, 104, 97, 101, 98}}, half = {"b", {50.5, 51.5, 48, 51, 49}};
  const Comparison c = compare(baseline, half);
  CHECK(c.saving_percent->value == doctest::Approx(50));
  CHECK(c.saving_percent->interval->low < 50);
  CHECK(c.saving_percent->interval->low > 45);
  CHECK(c.saving_percent->interval->high > 50);
  CHECK(c.saving_percent->interval->high < 55);
  CHECK(c.a12 == 1);
  CHECK(c.median_difference.value == 49.5);
  CHECK(c.median_difference.interval->low < 49.5);
  CHECK(c.median_difference.interval->high > 49.5);
  const Comparison worse = compare(half, baseline);
  CHECK(worse.saving_percent->value == doctest::Approx(-100));
  CHECK(worse.saving_percent->interval->high < 0);
}

TEST_CASE("differences far from normal make the procedure rank") {
  const Comparison c = compare(kBaseline, kOneFarOff);
  CHECK(c.test == Test::wilcoxon);
  CHECK(c.p == c.wilcoxon.p);
  CHECK(c.p == doctest::Approx(0.03125));
  CHECK(mentions(c.reason, "rejects normality of the differences"));
  CHECK(c.paired_t);
  CHECK(c.paired_t->p > 0.2);
}

TEST_CASE("arms far from normal may have normal differences") {
  Arm shifted = kOneFarOff;
  const std::vector<double> d{1.1, 0.9, 1.0, 1.2, 0.8, 1.05};
  for (std::size_t i = 0; i < d.size(); ++i) shifted.values[i] -= d[i];
  const Comparison c = compare(kOneFarOff, shifted);
  CHECK(c.a.shapiro->p < 0.05);
  CHECK(c.test == Test::paired_t);
  CHECK(c.p < 0.001);
  CHECK(c.welch->p > c.p);
  CHECK_THROWS_WITH_AS(compare(kBaseline, {"few", {1, 2}}),
                       "compare: softmax has 6 runs and few has 2, expected pairs", Error);
}

TEST_CASE("the same is what a test of equivalence shows, not a difference that is not found") {
  const Arm a = {"vit", {0.90, 0.91, 0.89}}, unclear = {"b", {0.895, 0.92, 0.89}};
  const Comparison open = compare(a, unclear, {.margin = 0.005});
  CHECK(open.p > 0.05);  // no difference shown
  CHECK(open.equivalence->p > 0.05);
  CHECK_FALSE(open.equivalent);
  const Comparison close = compare(a, {"c", {0.8995, 0.9105, 0.8895}}, {.margin = 0.005});
  CHECK(close.equivalence->p <= 0.05);
  CHECK(close.equivalent);
  CHECK(close.equivalence->p == tost(a.values, std::vector{0.8995, 0.9105, 0.8895}, 0.005).p);
  const Comparison equal = compare(a, a, {.margin = 0.005});  // nothing to test
  CHECK_FALSE(equal.equivalence);
  CHECK_FALSE(equal.equivalent);
}

TEST_CASE("a constant arm is compared by what the other does, two of them are not") {
  const Arm same = {"flops", std::vector<double>(6, 7.0)};
  const Comparison c = compare(kBaseline, same);
  CHECK_FALSE(c.b.shapiro);
  CHECK(mentions(c.b.shapiro_refusal, "constant sample"));
  CHECK(c.paired_t);
  CHECK(c.saving_percent->interval);
  const Comparison both = compare(same, same);
  CHECK(both.test == Test::wilcoxon);
  CHECK(both.p == 1);
  CHECK(mentions(both.reason, "constant sample"));
  CHECK(both.a12 == 0.5);
  CHECK(both.saving_percent->value == 0);
  CHECK_FALSE(both.saving_percent->interval);
  CHECK_FALSE(both.median_difference.interval);
  CHECK(mentions(both.interval_refusal, "constant sample"));
  CHECK_FALSE(both.paired_t);
  CHECK_FALSE(both.welch);
  CHECK_FALSE(both.hedges_g);
}

TEST_CASE("few runs are compared as far as they go, and the result says so") {
  const Comparison three = compare({"a", {5, 6, 8}}, {"b", {1, 1, 2}});
  REQUIRE(three.caveats.size() == 2);
  CHECK(three.caveats[0] == "3 pairs of runs, expected 5 or more");
  CHECK(three.caveats[1] == "with 3 pairs Wilcoxon cannot get below p = 0.25");
  CHECK(three.wilcoxon.p == 0.25);
  CHECK(three.saving_percent->interval);
  const Comparison five = compare({"a", {5, 6, 8, 7, 9}}, {"b", {1, 1, 2, 4, 3}});
  REQUIRE(five.caveats.size() == 1);
  CHECK(five.caveats[0] == "with 5 pairs Wilcoxon cannot get below p = 0.0625");
  const Comparison one = compare({"a", {5}}, {"b", {1}});
  CHECK(one.p == 1);
  CHECK_FALSE(one.a.sd);
  CHECK_FALSE(one.a.mean_interval);
  CHECK_FALSE(one.paired_t);
  CHECK_FALSE(one.welch);
  CHECK(one.saving_percent->value == doctest::Approx(80));
  CHECK(mentions(one.reason, "1 values, Shapiro-Wilk takes 3 to 5000"));
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
  CHECK(strict.paired_t->interval.high > usual.paired_t->interval.high);
  CHECK(strict.saving_percent->interval->high > usual.saving_percent->interval->high);
  // p of Shapiro-Wilk is 0.0067 here.
  const Arm weights = {"weights", {148, 154, 158, 160, 161, 162, 166, 170, 182, 195, 236}};
  const Arm nothing = {"nothing", std::vector<double>(11)};
  CHECK(compare(weights, nothing).test == Test::wilcoxon);
  CHECK(compare(weights, nothing, {.alpha = 0.005}).test == Test::paired_t);
}

TEST_CASE("values that are none are errors that name the arm") {
  CHECK_THROWS_WITH_AS(compare({"softmax", {1, 2, 3}}, {"gmm", {1, std::nan(""), 3}}),
                       "gmm: value 2 of 3 is nan, expected finite numbers", Error);
  CHECK_THROWS_WITH_AS(compare({"softmax", {}}, kVariant), "softmax: 0 values, expected at least 1",
                       Error);
  CHECK_THROWS_AS(compare(kBaseline, kVariant, {.alpha = 0}), Error);
}

}  // namespace hg::statistics
