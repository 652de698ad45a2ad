#include "train/step/schedule.h"

#include <doctest/doctest.h>

#include "tensor/base/error.h"

namespace hg::testing {
namespace {

TrainConfig settings(double warmup_epochs,
                     TrainConfig::Schedule schedule = TrainConfig::Schedule::cosine) {
  TrainConfig train;
  train.learning_rate = 0.1;
  train.epochs = 3;
  train.warmup_epochs = warmup_epochs;
  train.schedule = schedule;
  return train;
}

}  // namespace

TEST_CASE("warm-up rises to the peak, then cosine falls to 0") {
  const Schedule s(settings(1), 10);
  CHECK(s.total_steps() == 30);
  CHECK(s.warmup_steps() == 10);
  CHECK(s.learning_rate(0) == doctest::Approx(0.01));
  CHECK(s.learning_rate(4) == doctest::Approx(0.05));
  CHECK(s.learning_rate(9) == doctest::Approx(0.1));
  CHECK(s.learning_rate(10) == doctest::Approx(0.1));
  CHECK(s.learning_rate(20) == doctest::Approx(0.05));
  CHECK(s.learning_rate(29) > 0);
  CHECK(s.learning_rate(30) == 0);
  for (std::int64_t step = 11; step < 30; ++step)
    CHECK(s.learning_rate(step) < s.learning_rate(step - 1));
}

TEST_CASE("constant stays at the peak") {
  const Schedule s(settings(0.5, TrainConfig::Schedule::constant), 10);
  CHECK(s.learning_rate(0) == doctest::Approx(0.02));
  CHECK(s.learning_rate(5) == 0.1);
  CHECK(s.learning_rate(29) == 0.1);
}

TEST_CASE("no warm-up starts at the peak, and one longer than the run never reaches it") {
  CHECK(Schedule(settings(0), 10).learning_rate(0) == 0.1);
  CHECK(Schedule(settings(6), 10).learning_rate(29) == doctest::Approx(0.05));
}

TEST_CASE("bad schedules are errors") {
  CHECK_THROWS_AS(Schedule(settings(1), 0), Error);
  CHECK_THROWS_AS(Schedule(settings(1), 10).learning_rate(-1), Error);
}

}  // namespace hg::testing
