#include "train/statistics/normality.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tensor/base/error.h"

namespace hg::statistics {
namespace {

using Values = std::vector<double>;

Values series(int first, int last, const std::function<double(double)>& f) {
  Values values;
  for (int i = first; i <= last; ++i) values.push_back(f(i));
  return values;
}

struct Reference {
  Values x;
  double w, p;
  double tolerance = 1e-7;  // of p, relative: more where it is printed with fewer digits
};

// Values of SciPy 1.17.1.
std::vector<Reference> references() {
  return {{{1, 2, 4}, 0.964285714, 0.636886845},
          {{1, 2, 3, 7}, 0.886912378, 0.368999332},
          {{.6, 1.1, 1.4, 1.9, 2.7}, 0.981486085, 0.942411125},
          {{10.1, 10.4, 9.8, 10.0, 10.3, 9.9, 10.6}, 0.964161457, 0.853541340},
          {series(1, 10, [](double i) { return i; }), 0.970164611, 0.892367306},
          {{20.25, 20.31, 20.18, 20.40, 20.22, 20.27, 20.35, 20.15, 20.29, 21.90},
           0.506082704,
           4.286112e-06,
           2e-7},
          {{148, 154, 158, 160, 161, 162, 166, 170, 182, 195, 236}, 0.788814695, 0.00670381406},
          {{65, 61, 63, 86, 70, 55, 74, 35, 72, 68, 45, 58}, 0.971066437, 0.921648863},
          {series(1, 20, [](double i) { return i * i; }), 0.906130629, 0.0538095891},
          {series(1, 30, [](double i) { return std::sin(i); }), 0.890044754, 0.00483588572},
          {series(1, 100, [](double i) { return -std::log(1 - (i - .5) / 100); }), 0.829103921,
           2.156040e-09, 3e-7},
          {series(0, 999, [](double i) { return i / 1000; }), 0.954809026, 5.38868e-17, 2e-6}};
}

}  // namespace

TEST_CASE("Shapiro-Wilk agrees with the reference values") {
  for (const Reference& reference : references()) {
    const ShapiroWilk result = shapiro_wilk(reference.x);
    INFO("n = " << reference.x.size() << ", W = " << result.w << ", p = " << result.p);
    CHECK(std::abs(result.w - reference.w) < 1e-8);
    CHECK(std::abs(result.p / reference.p - 1) < reference.tolerance);
  }
}

TEST_CASE("Shapiro-Wilk is invariant under shifts and scales and the order of values") {
  for (const Reference& reference : references()) {
    const ShapiroWilk original = shapiro_wilk(reference.x);
    for (const auto& [c, d] : {std::pair{3.7, 0.0}, {-2.0, 5.0}, {1e-6, -1.0}, {-1e9, 1e9}}) {
      Values moved;
      for (const double v : reference.x) moved.push_back(c * v + d);
      std::reverse(moved.begin(), moved.begin() + 2);
      const ShapiroWilk result = shapiro_wilk(moved);
      INFO("n = " << moved.size() << ", c = " << c << ", d = " << d);
      CHECK(result.w == doctest::Approx(original.w).epsilon(1e-8));
      CHECK(result.p == doctest::Approx(original.p).epsilon(1e-6).scale(0));
    }
  }
}

TEST_CASE("Shapiro-Wilk at its edges") {
  // Two equal values of three: W has its smallest value.
  CHECK(shapiro_wilk(Values{1, 1, 2}).w == doctest::Approx(0.75));
  CHECK(shapiro_wilk(Values{1, 1, 2}).p == doctest::Approx(0).scale(1));
  CHECK(shapiro_wilk(Values{1, 2, 3}).p == doctest::Approx(1));
  // One value apart from ten: beyond the range of the approximation.
  CHECK(shapiro_wilk(Values{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}).p < 1e-6);
  CHECK(shapiro_wilk(Values{0, 0, 0, 1}).p < 0.01);
  CHECK(shapiro_wilk(series(1, 5000, [](double i) { return i; })).p < 1e-30);
}

TEST_CASE("Shapiro-Wilk refuses what it cannot judge") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(shapiro_wilk(Values{1, 2}),
                       "shapiro-wilk: 2 values, Shapiro-Wilk takes 3 to 5000", Error);
  CHECK_THROWS_WITH_AS(shapiro_wilk(Values(5001, 1.0)),
                       "shapiro-wilk: 5001 values, Shapiro-Wilk takes 3 to 5000", Error);
  CHECK_THROWS_WITH_AS(shapiro_wilk(Values(4, 2.5)),
                       "shapiro-wilk: constant sample, all 4 values are 2.5", Error);
  CHECK_THROWS_WITH_AS(shapiro_wilk(Values{1, infinity, 2}),
                       "shapiro-wilk: value 2 of 3 is inf, expected finite numbers", Error);
  CHECK_THROWS_AS(shapiro_wilk(Values{1, std::nan(""), 2}), Error);
  CHECK_THROWS_AS(shapiro_wilk(Values{-1e308, 0, 1e308}), Error);
}

}  // namespace hg::statistics
