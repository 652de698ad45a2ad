#include "train/store/steps_csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/clock.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr const char* kStepColumns = "phase,epoch,step,loss,learning_rate";
constexpr double kFlushSeconds = 0.5;

// A file may be damaged: what no run counts to is cut off.
std::int64_t counted(double value) {
  constexpr double kMost = 1e15;
  return static_cast<std::int64_t>(std::clamp(value, 0.0, kMost));
}

StepRow step_row(const NumberRow& r) {
  return {counted(r[0]), counted(r[1]), counted(r[2]), r[3], r[4]};
}

}  // namespace

std::vector<StepRow> read_steps(const std::string& path) {
  std::vector<StepRow> rows;
  for (const NumberRow& row : read_growing_csv(path, kStepColumns)) rows.push_back(step_row(row));
  return rows;
}

StepsLog::StepsLog(const std::string& path, std::optional<Place> after)
    : file_(path, kStepColumns, [&](const NumberRow& numbers) {
        const StepRow row = step_row(numbers);
        return after &&
               (row.phase < after->phase || (row.phase == after->phase && row.step <= after->step));
      }) {}

void StepsLog::add(const StepRow& r) {
  file_.add(fmt::format("{},{},{},{},{}", r.phase, r.epoch, r.step, r.loss, r.learning_rate));
  if (seconds_since(written_ns_) < kFlushSeconds) return;
  written_ns_ = now_ns();
  // What cannot be written now is tried again by save().
  static_cast<void>(file_.flush());
}

void StepsLog::save() {
  if (const std::string failure = file_.flush(); !failure.empty()) throw Error(failure);
}

}  // namespace hg
