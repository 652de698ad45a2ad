#include "train/statistics/effect.h"

#include <doctest/doctest.h>

#include "tensor/base/error.h"
#include "tests/train/statistics/samples.h"
#include "train/statistics/hypothesis.h"

namespace hg::statistics {

using Values = std::vector<double>;

TEST_CASE("effect sizes agree with the reference values") {
  CHECK(a12(kA, kB) == doctest::Approx(0.9722222).epsilon(1e-7));
  CHECK(cliff_delta(kA, kB) == doctest::Approx(0.9444444).epsilon(1e-7));
  CHECK(a12(kTiedA, kTiedB) == doctest::Approx(0.2166667).epsilon(1e-7));
  CHECK(hedges_g(kA, kB) == doctest::Approx(2.27884936).epsilon(2e-9));
  CHECK(hedges_g(kB, kA) == doctest::Approx(-2.27884936).epsilon(2e-9));
}

TEST_CASE("A12 and its mirror add up to 1, and A12 is U over the number of pairs") {
  for (const auto& [a, b] : {std::pair{kA, kB}, {kTiedA, kTiedB}, {kA, kTiedB}, {kB, kB}}) {
    CHECK(a12(a, b) + a12(b, a) == doctest::Approx(1).epsilon(1e-15));
    const auto pairs = static_cast<double>(a.size() * b.size());
    CHECK(a12(a, b) == doctest::Approx(mann_whitney(a, b).statistic / pairs).epsilon(1e-15));
  }
}

TEST_CASE("Cliff's labels change at their bounds") {
  CHECK(cliff_label(0) == "negligible");
  CHECK(cliff_label(-.1469) == "negligible");
  CHECK(cliff_label(.147) == "small");
  CHECK(cliff_label(-.3299) == "small");
  CHECK(cliff_label(-.33) == "medium");
  CHECK(cliff_label(.4739) == "medium");
  CHECK(cliff_label(.474) == "large");
  CHECK(cliff_label(-1) == "large");
  CHECK_THROWS_AS(cliff_label(1.5), Error);
}

TEST_CASE("effects of bad samples are errors") {
  CHECK_THROWS_WITH_AS(hedges_g(Values{2, 2}, Values{1, 1}),
                       "hedges g: both are constant samples, 2 and 1", Error);
  CHECK_THROWS_AS(hedges_g(Values{2}, Values{1, 2}), Error);
  CHECK_THROWS_AS(a12(Values{}, kB), Error);
}

}  // namespace hg::statistics
