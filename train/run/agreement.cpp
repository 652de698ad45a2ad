// What the ranks of a run agree on after each step: whether to stop, to save, and what energy all
// have used. Alone, a rank agrees with itself.
#include "tensor/base/clock.h"
#include "train/run/trainer.h"

namespace hg {
namespace {

constexpr double kShareBooksS = 2;  // a kill loses so much of other ranks' energy

}  // namespace

Trainer::Told& Trainer::Told::operator+=(const Told& other) {
  energy_uj += other.energy_uj;
  unscored_images += other.unscored_images;
  data_flops += other.data_flops;
  stop |= other.stop;
  save |= other.save;
  share_books |= other.share_books;
  return *this;
}

bool Trainer::counts_joules() const {
  return config_.run.joule_budget > 0 || (!epoch_flops_.empty() && !position_.forecast.made());
}

Trainer::Told Trainer::agree(const StepReport& own) {
  const bool leads = ranks().first();
  Told told{.unscored_images = own.unscored_images,
            .data_flops = own.data_flops,
            .stop = signals_.requested(),
            .save = leads && time_to_save(),
            .share_books = leads && seconds_since(shared_ns_) > kShareBooksS};
  if (counts_joules()) told.energy_uj = energy_->own_cut().value;
  told = ranks().sum(told);
  if (counts_joules()) energy_->know_all(energy_uj_ = told.energy_uj);
  position_.unscored_images += told.unscored_images;
  flops_beside_.all += told.data_flops;
  if (told.share_books && !ranks().alone()) {
    energy_->save();
    shared_ns_ = now_ns();
  }
  if (told.stop) ending_.end = RunEnd::interrupted;
  told.stop = told.stop || over_budget();
  return told;
}

// The budget is of the whole run, parts before a resume included.
bool Trainer::over_budget() {
  const double budget = config_.run.joule_budget;
  if (budget == 0 || energy::to_joules({energy_uj_}).value < budget) return false;
  ending_.end = RunEnd::budget;
  return true;
}

// An epoch may take hours, and a kill should cost minutes.
bool Trainer::time_to_save() const {
  const double minutes = config_.run.save_minutes;
  return minutes > 0 && seconds_since(saved_ns_) >= 60 * minutes;
}

}  // namespace hg
