#include "train/eval/metrics.h"

#include <doctest/doctest.h>

#include "tensor/base/error.h"
#include "tensor/random.h"

namespace hg::testing {

TEST_CASE("metrics of a small matrix by hand") {
  // truth 0 0 0 1 1 2, predicted 0 0 1 1 2 2
  ConfusionMatrix matrix(3);
  matrix.add(0, 0);
  matrix.add(0, 0);
  matrix.add(0, 1);
  matrix.add(1, 1);
  matrix.add(1, 2);
  matrix.add(2, 2);
  const Metrics m = matrix.metrics();
  CHECK(matrix.total() == 6);
  CHECK(matrix.count(0, 0) == 2);
  CHECK(matrix.count(2, 0) == 0);
  CHECK(m.accuracy == doctest::Approx(4.0 / 6));
  CHECK(m.micro_f1 == doctest::Approx(4.0 / 6));
  CHECK(m.classes[0].precision == 1);
  CHECK(m.classes[0].recall == doctest::Approx(2.0 / 3));
  CHECK(m.classes[0].f1 == doctest::Approx(0.8));
  CHECK(m.classes[1].f1 == doctest::Approx(0.5));
  CHECK(m.classes[2].f1 == doctest::Approx(2.0 / 3));
  CHECK(m.classes[0].support == 3);
  CHECK(m.classes[2].predicted == 2);
  CHECK(m.macro_f1 == doctest::Approx((0.8 + 0.5 + 2.0 / 3) / 3));
}

TEST_CASE("macro F1 skips absent classes and counts those only predicted") {
  ConfusionMatrix matrix(1000);
  matrix.add(3, 3);
  CHECK(matrix.metrics().macro_f1 == 1);
  matrix.add(3, 7);  // class 7 has no sample, but a prediction: its F1 is 0
  const Metrics m = matrix.metrics();
  CHECK(m.macro_f1 == doctest::Approx((2.0 / 3 + 0) / 2));
  CHECK(m.classes[7].recall == 0);
  CHECK(m.classes[8].f1 == 0);
}

TEST_CASE("all wrong gives zeros, not NaN") {
  ConfusionMatrix matrix(2);
  matrix.add(0, 1);
  const Metrics m = matrix.metrics();
  CHECK(m.accuracy == 0);
  CHECK(m.micro_f1 == 0);
  CHECK(m.macro_f1 == 0);
}

TEST_CASE("micro F1 equals accuracy") {
  RandomStream random(1, "labels");
  ConfusionMatrix all(5);
  for (int i = 0; i < 200; ++i) {
    const auto truth = static_cast<std::int64_t>(random.below(5));
    const auto predicted = static_cast<std::int64_t>(random.below(5));
    all.add(truth, predicted);
  }
  CHECK(all.metrics().micro_f1 == doctest::Approx(all.metrics().accuracy).epsilon(1e-15));
}

TEST_CASE("bad counts are errors") {
  ConfusionMatrix matrix(2);
  CHECK_THROWS_AS(matrix.metrics(), Error);
  CHECK_THROWS_AS(matrix.add(2, 0), Error);
  CHECK_THROWS_AS(matrix.add(0, -1), Error);
  CHECK_THROWS_AS(ConfusionMatrix(0), Error);
}

}  // namespace hg::testing
