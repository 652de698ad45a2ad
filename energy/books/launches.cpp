#include "energy/books/launches.h"

#include <algorithm>
#include <cmath>

namespace hg::energy {

void CallTimes::learn(const GpuCall& call) {
  const RowId row = call.site.rows[0];
  if (row >= by_row_.size()) by_row_.resize(row + 1);
  const auto ns = static_cast<double>(call.end_ns - call.start_ns);
  by_row_[row].ns += ns;
  ++by_row_[row].calls;
  learned_ns_ += ns;
  guessed_ += guess_.estimate(call.parts.total());
}

double CallTimes::expected_ns(const GpuCall& call) const {
  const RowId row = call.site.rows[0];
  if (row < by_row_.size() && by_row_[row].calls > 0)
    return by_row_[row].ns / static_cast<double>(by_row_[row].calls);
  return guess_.estimate(call.parts.total()) * (guessed_ > 0 ? learned_ns_ / guessed_ : 1e-3);
}

void place(std::vector<GpuCall>& calls, std::int64_t begin_ns, std::int64_t end_ns,
           const CallTimes& times) {
  double expected = 0;
  for (const GpuCall& call : calls) expected += times.expected_ns(call);
  const std::int64_t first = std::max(begin_ns, calls.front().start_ns);
  const auto room = static_cast<double>(std::max<std::int64_t>(0, end_ns - first));
  const bool alone = calls.size() == 1;
  const double scale = expected > room ? room / expected : 1;
  std::int64_t now = begin_ns;
  for (GpuCall& call : calls) {
    const std::int64_t last = std::max(end_ns, call.start_ns);
    call.start_ns = std::max(now, call.start_ns);
    call.end_ns = alone ? last
                        : std::min<std::int64_t>(
                              last, call.start_ns + std::llround(scale * times.expected_ns(call)));
    call.end_ns = now = std::max(call.start_ns, call.end_ns);
  }
}

void Launches::add(const GpuCall& call) {
  calls_.push_back(call);
  ++unmarked_;
  if (timed_) end_group();
}

void Launches::begin_step(bool timed) {
  end_group();
  timed_ = timed;
}

void Launches::end_group() {
  if (unmarked_ == 0) return;
  timer_->mark();
  groups_.push_back(std::exchange(unmarked_, 0));
}

}  // namespace hg::energy
