#include "train/statistics/hypothesis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/base/error.h"
#include "tests/train/statistics/samples.h"

namespace hg::statistics {
namespace {

using Values = std::vector<double>;

doctest::Approx to_1e9(double value) { return doctest::Approx(value).epsilon(1e-9).scale(0); }

Values counting(std::size_t n, double first = 1) {
  Values values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Two-sided p of U by trying every choice of n1 of the ranks 1..n.
double enumerated_mann_whitney_p(std::size_t n1, std::size_t n2, double u) {
  const auto low = static_cast<std::size_t>(std::min(u, static_cast<double>(n1 * n2) - u));
  std::size_t tail = 0, total = 0;
  for (unsigned chosen = 0; chosen < 1u << (n1 + n2); ++chosen) {
    std::size_t count = 0, rank_sum = 0;
    for (std::size_t i = 0; i < n1 + n2; ++i)
      if (chosen >> i & 1u) ++count, rank_sum += i + 1;
    if (count != n1) continue;
    ++total;
    tail += rank_sum - n1 * (n1 + 1) / 2 <= low;
  }
  return std::min(1.0, 2.0 * static_cast<double>(tail) / static_cast<double>(total));
}

}  // namespace

TEST_CASE("Welch agrees with the reference values") {
  const Welch result = welch(kA, kB);
  CHECK(result.t == to_1e9(4.27600644).epsilon(2e-9));
  CHECK(result.df == to_1e9(6.79970176));
  CHECK(result.p == to_1e9(0.00392668597));
  CHECK(result.difference == doctest::Approx(mean(kA) - mean(kB)));
  const Welch swapped = welch(kB, kA);
  CHECK(swapped.t == doctest::Approx(-result.t));
  CHECK(swapped.p == to_1e9(result.p));
}

TEST_CASE("Welch's interval ends at 0 when its confidence is 1 - p") {
  const Welch result = welch(kA, kB, 1 - welch(kA, kB).p);
  CHECK(result.interval.low == doctest::Approx(0).epsilon(1e-9));
  CHECK(result.interval.high == doctest::Approx(2 * result.difference));
  CHECK(welch(kA, kB).interval.low > 0);
}

TEST_CASE("Welch takes one constant sample and refuses two") {
  const Welch result = welch(Values{5, 5, 5}, Values{1, 2, 3, 4});
  CHECK(result.df == doctest::Approx(3));
  CHECK(std::isfinite(result.p));
  CHECK_THROWS_WITH_AS(welch(Values{5, 5}, Values{4, 4}),
                       "welch: both are constant samples, 5 and 4", Error);
  CHECK_THROWS_AS(welch(Values{5}, Values{4, 3}), Error);
  CHECK_THROWS_AS(welch(kA, kB, 1), Error);
}

TEST_CASE("the paired t-test by hand: three pairs") {
  // Differences 1 2 3: mean 2, sd 1, t = 2 sqrt(3). With 2 degrees of freedom P(|T| > t) is
  // 1 - t / sqrt(2 + t^2), and its quantile for 95 % 4.30265273.
  const Values a{5, 6, 9}, b{4, 4, 6};
  const PairedT result = paired_t(a, b);
  CHECK(result.difference == doctest::Approx(2));
  CHECK(result.t == to_1e9(2 * std::sqrt(3)));
  CHECK(result.df == 2);
  CHECK(result.p == to_1e9(1 - 2 * std::sqrt(3) / std::sqrt(14)));
  CHECK(result.interval.low == doctest::Approx(2 - 4.30265273 / std::sqrt(3)));
  CHECK(result.interval.high == doctest::Approx(2 + 4.30265273 / std::sqrt(3)));
  const PairedT swapped = paired_t(b, a);
  CHECK(swapped.t == doctest::Approx(-result.t));
  CHECK(swapped.p == to_1e9(result.p));
}

TEST_CASE("the paired t-test agrees with reference values, and sees what Welch does not") {
  // By the incomplete beta function, in another language.
  const PairedT result = paired_t(kA, kB);
  CHECK(result.t == to_1e9(3.44424179508));
  CHECK(result.p == to_1e9(0.0183512046671));
  CHECK(result.interval.low == to_1e9(0.0858210032469));
  CHECK(result.interval.high == to_1e9(0.59084566342));
  // Runs far apart by seed, and a small difference in each pair.
  const Values first{100, 140, 90, 120}, second{97, 138.5, 87.5, 118};
  CHECK(paired_t(first, second).p < 0.01);
  CHECK(welch(first, second).p > 0.5);
}

TEST_CASE("equivalence by hand: the harder of two one-sided tests") {
  // As above: mean 2, error 1 / sqrt(3), margin 4; (4 - 2) sqrt(3) is t again, one-sided. 90 %:
  // quantile 2.91998558.
  const Values a{5, 6, 9}, b{4, 4, 6};
  const Equivalence result = tost(a, b, 4);
  CHECK(result.p == to_1e9((1 - 2 * std::sqrt(3) / std::sqrt(14)) / 2));
  CHECK(result.interval.low == doctest::Approx(2 - 2.91998558 / std::sqrt(3)));
  CHECK(result.interval.high == doctest::Approx(2 + 2.91998558 / std::sqrt(3)));
  CHECK(tost(b, a, 4).p == to_1e9(result.p));
  CHECK(tost(a, b, 2).p == doctest::Approx(0.5));
  CHECK(tost(kA, kB, 0.5).p == to_1e9(0.0803648153518));
  CHECK(tost(kA, kB, 0.6).p == to_1e9(0.0223405313253));
  CHECK(tost(kA, kB, 0.6).interval.low == to_1e9(0.140391936202));
  // p is below alpha where the interval lies within the margin, and only there.
  CHECK(tost(kA, kB, 0.6).interval.high < 0.6);
  CHECK(tost(kA, kB, 0.5).interval.high > 0.5);
}

TEST_CASE("no difference found is no equivalence, and equivalence allows a difference") {
  const Values a{0.90, 0.91, 0.89}, far{0.895, 0.92, 0.89};
  CHECK(paired_t(a, far).p > 0.7);
  CHECK(tost(a, far, 0.005).p > 0.2);
  const Values near{0.899, 0.9089, 0.8891};
  CHECK(paired_t(a, near).p < 0.05);
  CHECK(tost(a, near, 0.005).p < 0.05);
}

TEST_CASE("pairs of one difference are no sample of differences, up to rounding") {
  const Values a{0.1, 0.2, 0.3}, b{0.1 + 0.7, 0.2 + 0.7, 0.3 + 0.7};
  CHECK(constant(differences(a, b)));
  CHECK_FALSE(constant(differences(kA, kB)));
  CHECK_THROWS_WITH_AS(paired_t(Values{2, 3}, Values{1, 2}), "paired t: all 2 differences are 1",
                       Error);
  CHECK_THROWS_WITH_AS(tost(Values{2, 3}, Values{2, 3}, 1), "tost: all 2 differences are 0", Error);
  CHECK_THROWS_AS(paired_t(Values{2}, Values{1}), Error);
  CHECK_THROWS_WITH_AS(paired_t(kA, Values{1, 2}), "paired t: 6 values against 2, expected pairs",
                       Error);
  CHECK_THROWS_AS(tost(kA, kB, 0), Error);
  CHECK_THROWS_AS(tost(kA, kB, std::nan("")), Error);
  CHECK_THROWS_AS(tost(kA, kB, 1, 0.5), Error);
  CHECK_THROWS_AS(paired_t(kA, kB, 1), Error);
}

TEST_CASE("Mann-Whitney agrees with the reference values") {
  const RankTest exact = mann_whitney(kA, kB);
  CHECK(exact.statistic == 35);
  CHECK(exact.exact);
  CHECK(exact.p == to_1e9(0.00432900433));
  const RankTest asymptotic = mann_whitney(kA, kB, RankMethod::asymptotic);
  CHECK_FALSE(asymptotic.exact);
  CHECK(asymptotic.p == to_1e9(0.00823901883));
  const RankTest tied = mann_whitney(kTiedA, kTiedB);
  CHECK(tied.statistic == 6.5);
  CHECK_FALSE(tied.exact);
  CHECK(tied.p == to_1e9(0.138625880).epsilon(4e-9));
}

TEST_CASE("Mann-Whitney's exact p is that of all arrangements") {
  for (const auto& [n1, n2] : {std::pair<std::size_t, std::size_t>{1, 1}, {2, 3}, {5, 3}, {4, 6}}) {
    // a: the last n1 of 1..n, then one value after the other moved below b's.
    for (std::size_t moved = 0; moved <= n1; ++moved) {
      Values a = counting(n1, static_cast<double>(n2) + 1);
      for (std::size_t i = 0; i < moved; ++i) a[i] = -static_cast<double>(i);
      const RankTest result = mann_whitney(a, counting(n2));
      CHECK(result.statistic == static_cast<double>((n1 - moved) * n2));
      CHECK(result.p == to_1e9(enumerated_mann_whitney_p(n1, n2, result.statistic)));
    }
  }
}

TEST_CASE("the smallest p of few runs") {
  for (const auto& [n, p] : {std::pair<std::size_t, double>{3, 0.1}, {4, 0.0286}, {5, 0.0079}}) {
    const RankTest result = mann_whitney(counting(n), counting(n, 100));
    CHECK(std::abs(result.p - p) < 5e-5);
    CHECK(result.smallest_p == to_1e9(result.p));
  }
  CHECK(wilcoxon(counting(5), counting(5, 0)).smallest_p == 0.0625);
  CHECK(mann_whitney(Values{1}, Values{2}).smallest_p == 1);
}

TEST_CASE("Mann-Whitney goes asymptotic beyond 20 values and with ties") {
  CHECK(mann_whitney(counting(20), counting(20, 0.5)).exact);
  CHECK_FALSE(mann_whitney(counting(21), counting(5, 0.5)).exact);
  // Where both exist they come close.
  const Values a = counting(20), b = counting(20, 5.5);
  CHECK(mann_whitney(a, b).p ==
        doctest::Approx(mann_whitney(a, b, RankMethod::asymptotic).p).epsilon(0.01));
  CHECK_THROWS_AS(mann_whitney(kTiedA, kTiedB, RankMethod::exact), Error);
  CHECK_THROWS_AS(mann_whitney(counting(21), counting(5, 0.5), RankMethod::exact), Error);
}

TEST_CASE("Mann-Whitney without a difference gives p = 1") {
  CHECK(mann_whitney(Values(5, 3.0), Values(7, 3.0)).p == 1);
  CHECK(mann_whitney(Values{1, 4}, Values{2, 3}).p == 1);
  CHECK(mann_whitney(kTiedA, kTiedA).p == 1);
  CHECK_THROWS_AS(mann_whitney(Values{}, kB), Error);
  CHECK_THROWS_AS(mann_whitney(kA, Values{1, std::nan("")}), Error);
}

TEST_CASE("Wilcoxon agrees with the reference values") {
  const RankTest exact = wilcoxon(kA, kB);
  CHECK(exact.statistic == 0);
  CHECK(exact.exact);
  CHECK(exact.p == 0.03125);
  CHECK(wilcoxon(kA, kB, RankMethod::asymptotic).p == to_1e9(0.0360316862).epsilon(2e-9));
}

TEST_CASE("Wilcoxon by hand: signed ranks and zeros and ties") {
  // Differences 1 -2 3 4: T- = 2. Sums up to 2 of subsets of 1..4: {} {1} {2}; p = 2 * 3 / 16.
  const RankTest signs = wilcoxon(Values{1, 0, 3, 4}, Values{0, 2, 0, 0});
  CHECK(signs.statistic == 2);
  CHECK(signs.p == 0.375);
  // A pair without difference doesn't count.
  const RankTest with_zero = wilcoxon(Values{1, 0, 3, 4, 7}, Values{0, 2, 0, 0, 7});
  CHECK(with_zero.p == signs.p);
  // Differences 1 1 -1 2: ranks 2 2 2 4, T- = 2; variance 4*5*9/24 - 24/48.
  const RankTest tied = wilcoxon(Values{1, 1, 0, 2}, Values{0, 0, 1, 0});
  CHECK(tied.statistic == 2);
  CHECK_FALSE(tied.exact);
  CHECK(tied.p == to_1e9(std::erfc((3 - 0.5) / std::sqrt(7) / std::sqrt(2))));
  CHECK(wilcoxon(kA, kA).p == 1);
}

TEST_CASE("few tied values reach no p that untied ones cannot") {
  // The normal approximation would say 0.037.
  const RankTest five = wilcoxon(Values{2, 3, 4, 5, 6}, Values{1, 2, 3, 4, 5});
  CHECK_FALSE(five.exact);
  CHECK(five.p == 0.0625);
  CHECK(mann_whitney(Values{2, 2, 2}, Values{1, 1, 1}).p >= 0.1);
}

TEST_CASE("Wilcoxon goes asymptotic beyond 25 pairs") {
  CHECK(wilcoxon(counting(25), Values(25)).p == std::exp2(-24));
  CHECK_FALSE(wilcoxon(counting(26), Values(26)).exact);
  CHECK_THROWS_AS(wilcoxon(counting(26), Values(26), RankMethod::exact), Error);
  CHECK_THROWS_WITH_AS(wilcoxon(Values{1, 2}, Values{1}),
                       "wilcoxon: 2 values against 1, expected pairs", Error);
}

TEST_CASE("Holm corrects in the order of size and never lets a p-value fall") {
  const Values adjusted = holm(Values{0.01, 0.04, 0.03, 0.005});
  CHECK(adjusted[0] == doctest::Approx(0.03));
  CHECK(adjusted[1] == doctest::Approx(0.06));
  CHECK(adjusted[2] == doctest::Approx(0.06));
  CHECK(adjusted[3] == doctest::Approx(0.02));
  CHECK(holm(Values{0.6, 0.7}) == Values{1, 1});
  CHECK(holm(Values{0.2}) == Values{0.2});
  CHECK(holm(Values{}).empty());
  CHECK_THROWS_AS(holm(Values{1.1}), Error);
  CHECK_THROWS_AS(holm(Values{std::nan("")}), Error);
}

}  // namespace hg::statistics
