// steps.csv: loss and learning rate of each training step.
#pragma once

#include <cstdint>
#include <optional>

#include "train/store/growing_csv.h"

namespace hg {

struct StepRow {
  std::int64_t phase = 0;            // from 0, as in the key phase.0.train.epochs
  std::int64_t epoch = 0, step = 0;  // of the phase, from 1
  double loss = 0, learning_rate = 0;
};

std::vector<StepRow> read_steps(const std::string& path);

class StepsLog {
 public:
  // Goes on behind the last step of a resumed run's state, or begins.
  struct Place {
    std::int64_t phase = 0, step = 0;
  };
  StepsLog(const std::string& path, std::optional<Place> after);

  void add(const StepRow& row);  // written at most twice a second
  void save();                   // writes all; throws Error where it cannot

 private:
  GrowingCsv file_;
  std::int64_t written_ns_ = 0;
};

}  // namespace hg
