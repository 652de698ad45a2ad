#include "energy/meters/deadline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "energy/meters/faults.h"
#include "tensor/base/clock.h"

namespace hg::energy {
namespace {

std::chrono::duration<double> span_of(Seconds s) { return std::chrono::duration<double>(s.value); }

// What the reading thread and those who ask it share. It lives as long as the last of them.
struct ReadingDesk {
  std::mutex mutex;
  std::condition_variable asked, answered;
  // Set once, before `opened`.
  bool opened = false;
  std::exception_ptr failure;
  Candidate candidate;
  bool has_meter = false;
  std::string source;
  std::array<Watts, kDomains> max_power{};
  std::array<ReadingError, kDomains> reading_error{};
  // Of the readings.
  bool wanted = false, stop = false, ended = false, slow = false;
  Reading latest;
  Kind kind = Kind::unavailable;
  std::array<Kind, kDomains> kind_of{};
  std::uint64_t faults = 0;
  std::vector<Fault> fault_list;
};

void tell_of(ReadingDesk& desk, const Opened& opened) {
  desk.candidate = opened.candidate;
  desk.has_meter = opened.meter != nullptr;
  if (!desk.has_meter) return;
  desk.source = opened.meter->source();
  for (std::size_t d = 0; d < kDomains; ++d) {
    desk.max_power[d] = opened.meter->max_power(static_cast<Domain>(d));
    desk.reading_error[d] = opened.meter->reading_error(static_cast<Domain>(d));
  }
}

// Needs the desk's lock.
void put_reading(ReadingDesk& desk, const Reading& reading, const Meter& meter) {
  desk.latest = reading;
  desk.kind = meter.kind();
  for (std::size_t d = 0; d < kDomains; ++d)
    desk.kind_of[d] = meter.kind_of(static_cast<Domain>(d));
  if (desk.faults == meter.faults()) return;
  desk.faults = meter.faults();
  desk.fault_list = meter.fault_list();
}

std::unique_ptr<Meter> open_at(ReadingDesk& desk, const std::function<Opened()>& open) {
  Opened opened;
  Reading first;
  std::exception_ptr failure;
  try {
    opened = open();
    if (opened.meter) first = opened.meter->read();
  } catch (...) {
    failure = std::current_exception();
    opened.meter.reset();
  }
  const std::lock_guard lock(desk.mutex);
  tell_of(desk, opened);
  if (opened.meter) put_reading(desk, first, *opened.meter);
  desk.failure = failure;
  desk.opened = true;
  desk.answered.notify_all();
  return std::move(opened.meter);
}

void answer(ReadingDesk& desk, Meter& meter, Seconds deadline) {
  std::unique_lock lock(desk.mutex);
  for (;;) {
    desk.asked.wait(lock, [&] { return desk.wanted || desk.stop; });
    if (desk.stop) return;
    lock.unlock();
    const std::int64_t start = now_ns();
    const Reading reading = meter.read();
    const bool slow = seconds_since(start) > deadline.value;
    lock.lock();
    put_reading(desk, reading, meter);
    desk.slow = slow;
    desk.wanted = false;
    desk.answered.notify_all();
  }
}

// The meter is closed on this thread, too: that may hang as well.
void serve(const std::shared_ptr<ReadingDesk>& desk, const std::function<Opened()>& open,
           Seconds deadline) {
  if (std::unique_ptr<Meter> meter = open_at(*desk, open)) answer(*desk, *meter, deadline);
  const std::lock_guard lock(desk->mutex);
  desk->ended = true;
  desk->answered.notify_all();
}

class DeadlineMeter final : public Meter {
 public:
  DeadlineMeter(std::string name, std::shared_ptr<ReadingDesk> desk, Seconds deadline)
      : name_(std::move(name)), desk_(std::move(desk)), deadline_(deadline), last_(desk_->latest) {}
  ~DeadlineMeter() override {
    std::unique_lock lock(desk_->mutex);
    desk_->stop = true;
    desk_->asked.notify_all();
    desk_->answered.wait_for(lock, span_of(deadline_), [&] { return desk_->ended; });
  }

  std::string_view name() const override { return name_; }
  Kind kind() const override {
    const std::lock_guard lock(desk_->mutex);
    return desk_->kind;
  }
  Kind kind_of(Domain domain) const override {
    const std::lock_guard lock(desk_->mutex);
    return desk_->kind_of[static_cast<std::size_t>(domain)];
  }
  ReadingError reading_error(Domain domain) const override {
    return desk_->reading_error[static_cast<std::size_t>(domain)];
  }
  Watts max_power(Domain domain) const override {
    return desk_->max_power[static_cast<std::size_t>(domain)];
  }
  std::string source() const override { return desk_->source; }
  std::uint64_t faults() const override {
    const std::lock_guard lock(desk_->mutex);
    return desk_->faults + late_.count();
  }
  std::vector<Fault> fault_list() const override {
    const std::lock_guard lock(desk_->mutex);
    std::vector<Fault> all = desk_->fault_list;
    for (Fault& fault : late_.list()) all.push_back(std::move(fault));
    return all;
  }

  Reading read() override {
    std::unique_lock lock(desk_->mutex);
    const bool asked_before = desk_->wanted;
    if (!asked_before) {
      desk_->wanted = true;
      desk_->asked.notify_one();
    }
    const auto answered = [&] { return !desk_->wanted; };
    const bool waits = !asked_before && !desk_->slow;
    const bool in_time =
        waits ? desk_->answered.wait_for(lock, span_of(deadline_), answered) : answered();
    if (!in_time && !asked_before) late_.add(FaultKind::late, now_ns(), zone_);
    // A reading that was late belongs to an earlier time than the one that stood in for it.
    const std::int64_t since = std::exchange(last_, desk_->latest).time_ns;
    last_.time_ns = std::max(last_.time_ns, since);
    return in_time ? last_ : as_of_now(desk_->latest);
  }

 private:
  Reading as_of_now(Reading reading) {
    const std::int64_t read_ns = reading.time_ns;
    reading.time_ns = last_.time_ns = std::max(last_.time_ns, now_ns());
    const double us = static_cast<double>(reading.time_ns - read_ns) * 1e-3;
    for (std::size_t d = 0; d < kDomains; ++d)
      if (auto& domain = reading.domains[d])
        domain->high += {static_cast<std::int64_t>(desk_->max_power[d].value * us)};
    return reading;
  }

  const std::string name_;
  const std::shared_ptr<ReadingDesk> desk_;
  const Seconds deadline_;
  Reading last_;
  FaultLog late_;
  FaultLog::Zone zone_ = late_.add_zone(name_);
};

}  // namespace

Opened open_with_deadline(const char* name, std::function<Opened()> open, Deadlines deadlines) {
  const auto desk = std::make_shared<ReadingDesk>();
  std::thread([desk, open = std::move(open), read = deadlines.read] {
    serve(desk, open, read);
  }).detach();
  std::unique_lock lock(desk->mutex);
  if (!desk->answered.wait_for(lock, span_of(deadlines.open), [&] { return desk->opened; })) {
    desk->stop = true;
    return refused(
        name, Verdict::rejected,
        fmt::format("did not answer within {} s: its driver hangs", deadlines.open.value));
  }
  if (desk->failure) std::rethrow_exception(desk->failure);
  if (!desk->has_meter) return {desk->candidate, nullptr};
  lock.unlock();
  return {desk->candidate, std::make_unique<DeadlineMeter>(name, desk, deadlines.read)};
}

}  // namespace hg::energy
