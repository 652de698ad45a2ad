// Calls on the GPU, from their launch until it is known when the device ran them. A step is timed
// op by op, with a mark after each call that launched something, or only as a whole: then its calls
// get the times that they took in steps that were timed.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "energy/books/calibration.h"
#include "energy/books/site.h"
#include "tensor/cuda_device.h"

namespace hg::energy {

// The host's clock; start_ns is that of the launch until the device's is known.
struct GpuCall {
  Site site;
  CostParts parts;
  std::int64_t start_ns = 0, end_ns = 0;
};

// What calls of each row take, learned from those that were timed.
class CallTimes {
 public:
  explicit CallTimes(const PartTimes& guess) : guess_(guess) {}
  void learn(const GpuCall& call);
  double expected_ns(const GpuCall& call) const;

 private:
  struct Mean {
    double ns = 0;
    std::uint64_t calls = 0;
  };
  const PartTimes guess_;
  double learned_ns_ = 0, guessed_ = 0;  // of all calls, so that guesses have the right scale
  std::vector<Mean> by_row_;
};

// Gives the calls their times: one after the other in [begin_ns, end_ns], each begun after its
// launch. One call takes all of it that comes after its launch.
void place(std::vector<GpuCall>& calls, std::int64_t begin_ns, std::int64_t end_ns,
           const CallTimes& times);

class Launches {
 public:
  Launches(std::unique_ptr<cuda::MarkTimer> timer, const PartTimes& guess)
      : timer_(std::move(timer)), times_(guess) {}

  void add(const GpuCall& call);
  void begin_step(bool timed);
  // Calls visit(call) for each that the device is done with. `wait`: until it is with all.
  template <class Visit>
  void collect(bool wait, Visit&& visit);
  std::int64_t earliest() const { return calls_.empty() ? 0 : calls_.front().start_ns; }

 private:
  void end_group();

  std::unique_ptr<cuda::MarkTimer> timer_;
  CallTimes times_;
  bool timed_ = true;
  std::int64_t marked_ns_ = 0;  // when the device came to the last mark collected
  std::deque<GpuCall> calls_;
  std::deque<std::size_t> groups_;  // calls before each mark not collected yet
  std::size_t unmarked_ = 0;        // calls since the last mark
  std::vector<GpuCall> group_;      // scratch
};

template <class Visit>
void Launches::collect(bool wait, Visit&& visit) {
  if (wait) end_group();
  while (!groups_.empty()) {
    const std::optional<std::int64_t> end_ns = timer_->next(wait);
    if (!end_ns) return;
    const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(groups_.front());
    group_.assign(calls_.begin(), end);
    calls_.erase(calls_.begin(), end);
    groups_.pop_front();
    place(group_, marked_ns_, *end_ns, times_);
    marked_ns_ = *end_ns;
    if (group_.size() == 1) times_.learn(group_[0]);
    for (const GpuCall& call : group_) visit(call);
  }
}

}  // namespace hg::energy
