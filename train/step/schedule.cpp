#include "train/step/schedule.h"

#include <numbers>

#include "tensor/base/error.h"

namespace hg {

Schedule::Schedule(const TrainConfig& train, std::int64_t steps_per_epoch)
    : peak_(train.learning_rate),
      cosine_(train.schedule == TrainConfig::Schedule::cosine),
      warmup_(std::llround(train.warmup_epochs * static_cast<double>(steps_per_epoch))),
      total_(train.epochs * steps_per_epoch) {
  require(steps_per_epoch >= 1, "schedule", "expected at least 1 step an epoch, got {}",
          steps_per_epoch);
}

double Schedule::learning_rate(std::int64_t step) const {
  require(step >= 0, "schedule", "step {} is negative", step);
  if (step < warmup_) return peak_ * static_cast<double>(step + 1) / static_cast<double>(warmup_);
  if (!cosine_) return peak_;
  if (step >= total_) return 0;
  const double progress =
      static_cast<double>(step - warmup_) / static_cast<double>(total_ - warmup_);
  return peak_ * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace hg
