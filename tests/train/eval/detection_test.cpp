#include "train/eval/detection.h"

#include <doctest/doctest.h>

#include "tensor/base/error.h"

namespace hg {

using doctest::Approx;

TEST_CASE("detection: a right prediction has the class and an IoU of at least a half") {
  DetectionTally tally(3);
  tally.add(0, 0, 0.9, 0.8);   // right
  tally.add(0, 0, 0.8, 0.49);  // class alone
  tally.add(1, 0, 0.7, 1.0);   // box alone
  tally.add(1, 1, 0.6, 0.5);   // right, at the limit
  const DetectionMetrics m = tally.metrics();
  CHECK(m.boxes == 4);
  CHECK(m.mean_iou == Approx((0.8 + 0.49 + 1 + 0.5) / 4));
  CHECK(m.localization_accuracy == Approx(0.5));
  CHECK(m.iou_50 == Approx(0.75));
  CHECK(m.micro_f1 == Approx(0.5));
  // Class 0: 1 right of 3 predicted and 2 true; class 1: 1 of 1 and 2; class 2 is absent.
  CHECK(m.macro_f1 == Approx((2 / 5.0 + 2 / 3.0) / 2));
}

TEST_CASE("detection: mAP@0.5 by hand") {
  DetectionTally tally(3);
  // Class 0, 3 true: right at 0.9, wrong at 0.8, right at 0.7, right at 0.6. The points are
  // (1/3, 1), (1/3, 1/2), (2/3, 2/3), (1, 3/4); raised from the right 1, 3/4, 3/4, 3/4.
  tally.add(0, 0, 0.7, 0.6);
  tally.add(1, 0, 0.8, 0.9);
  tally.add(0, 0, 0.9, 0.6);
  tally.add(0, 0, 0.6, 0.6);
  // Class 1, 3 true, one of them given class 0 above: half the precision at a third of the recall.
  tally.add(1, 1, 0.9, 0.2);
  tally.add(1, 1, 0.5, 0.7);
  const double first = (1 + 0.75 + 0.75) / 3, second = 0.5 / 3;
  CHECK(tally.metrics().map_50 == Approx((first + second) / 2));
  // A class that is never true is no part of the mean, but takes its images from the others.
  tally.add(0, 2, 0.99, 0.9);
  CHECK(tally.metrics().map_50 == Approx((first * 3 / 4 + second) / 2));
}

TEST_CASE("detection: predictions of one score have no order") {
  DetectionTally right_first(1), wrong_first(1);
  right_first.add(0, 0, 0.5, 0.9);
  right_first.add(0, 0, 0.5, 0.1);
  wrong_first.add(0, 0, 0.5, 0.1);
  wrong_first.add(0, 0, 0.5, 0.9);
  CHECK(right_first.metrics().map_50 == Approx(0.25));  // precision 1/2 at recall 1/2
  CHECK(wrong_first.metrics().map_50 == Approx(0.25));
}

TEST_CASE("detection: all right, all wrong, none") {
  DetectionTally good(2), bad(2), none(2);
  for (const std::int64_t c : {0, 1, 1}) {
    good.add(c, c, 0.7, 1);
    bad.add(c, 1 - c, 0.7, 1);
  }
  const DetectionMetrics g = good.metrics(), b = bad.metrics();
  for (const double v : {g.mean_iou, g.localization_accuracy, g.iou_50, g.micro_f1, g.macro_f1,
                         g.map_50, b.mean_iou, b.iou_50})
    CHECK(v == Approx(1));
  for (const double v : {b.localization_accuracy, b.micro_f1, b.macro_f1, b.map_50}) CHECK(v == 0);
  CHECK_THROWS_AS(none.metrics(), Error);
  CHECK_THROWS_AS(good.add(0, 2, 1, 1), Error);
}

}  // namespace hg
