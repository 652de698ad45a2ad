// When the device came to marks among its work, by events from a pool.
#include <deque>
#include <utility>
#include <vector>

#include "tensor/base/clock.h"
#include "tensor/cuda/event.h"
#include "tensor/cuda/stream.h"
#include "tensor/cuda_device.h"

namespace hg::cuda {
namespace {

class EventTimer final : public MarkTimer {
 public:
  EventTimer() { anchor(); }

  void mark() override {
    marks_.push_back(take());
    marks_.back()->record(stream().handle());
  }

  std::optional<std::int64_t> next(bool wait) override {
    if (marks_.empty()) return std::nullopt;
    if (wait)
      marks_.front()->wait();
    else if (!marks_.front()->reached())
      return std::nullopt;
    const std::int64_t ns = time_of(std::move(marks_.front()));
    marks_.pop_front();
    if (wait && marks_.empty()) anchor();
    return ns;
  }

 private:
  using Owned = std::unique_ptr<Event>;

  Owned take() {
    if (spare_.empty()) return std::make_unique<Event>(cudaEventDefault);
    Owned event = std::move(spare_.back());
    spare_.pop_back();
    return event;
  }

  // Host and device agree on a moment; their clocks drift apart afterwards.
  void anchor() {
    Owned event = take();
    event->record(stream().handle());
    event->wait();
    set_last(std::move(event), static_cast<double>(now_ns()));
  }

  // From event to event: a difference since the start of a long run would be too coarse.
  std::int64_t time_of(Owned event) {
    const double ns = last_ns_ + event->ns_since(*last_);
    set_last(std::move(event), ns);
    return static_cast<std::int64_t>(ns);
  }

  void set_last(Owned event, double ns) {
    if (last_) spare_.push_back(std::move(last_));
    last_ = std::move(event);
    last_ns_ = ns;
  }

  Owned last_;
  double last_ns_ = 0;  // of the host's clock, when last_ was reached
  std::deque<Owned> marks_;
  std::vector<Owned> spare_;
};

}  // namespace

std::unique_ptr<MarkTimer> mark_timer() { return std::make_unique<EventTimer>(); }

}  // namespace hg::cuda
