// When the device did what it was given, by events from a pool.
#include <deque>
#include <utility>
#include <vector>

#include "tensor/base/clock.h"
#include "tensor/cuda/event.h"
#include "tensor/cuda/stream.h"
#include "tensor/cuda_device.h"

namespace hg::cuda {
namespace {

class EventTimer final : public SpanTimer {
 public:
  EventTimer() { anchor(); }

  void begin() override {
    if (!open_) open_ = take();  // else one that never ended
    open_->record(stream().handle());
  }

  void end() override {
    Events span{std::move(open_), take()};
    span.end->record(stream().handle());
    spans_.push_back(std::move(span));
  }

  bool next(Span& span, bool wait) override {
    if (spans_.empty()) return false;
    Events& oldest = spans_.front();
    if (wait)
      oldest.end->wait();
    else if (!oldest.end->reached())
      return false;
    span.start_ns = time_of(std::move(oldest.begin));
    span.end_ns = time_of(std::move(oldest.end));
    spans_.pop_front();
    if (wait && spans_.empty()) anchor();
    return true;
  }

 private:
  using Owned = std::unique_ptr<Event>;
  struct Events {
    Owned begin, end;
  };

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

  Owned open_, last_;
  double last_ns_ = 0;  // of the host's clock, when last_ was reached
  std::deque<Events> spans_;
  std::vector<Owned> spare_;
};

}  // namespace

std::unique_ptr<SpanTimer> span_timer() { return std::make_unique<EventTimer>(); }

}  // namespace hg::cuda
