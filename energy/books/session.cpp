#include "energy/books/session.h"

#include <chrono>

#include "energy/meters/choice.h"
#include "tensor/base/clock.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/view.h"

namespace hg::energy {
namespace {

constexpr std::size_t kRecent = 128;

std::int64_t energy_of(const Reading& reading) {
  std::int64_t sum = 0;
  for (const auto& domain : reading.domains)
    if (domain) sum += domain->energy.value;
  return sum;
}

Attribution::ReadingErrors errors_of(const Meter& meter) {
  Attribution::ReadingErrors errors;
  for (std::size_t d = 0; d < kDomains; ++d)
    errors[d] = meter.reading_error(static_cast<Domain>(d));
  return errors;
}

Device usual_device() { return cuda::unavailable().empty() ? Device::cuda : Device::cpu; }

// Measured with an op that does nothing and a profiler of its own.
double measure_ns_per_call(const PartTimes& times) {
  constexpr int kCalls = 1000;  // in each of two rounds
  static_assert(2 * kCalls < ThreadLog::kCapacity);
  RowTable rows;
  Profiler profiler(rows, times, [] {});
  const Tensor x = Tensor::hollow_of({DType::f32, {2, 3}});
  const ops::Reshape op({3, 2});
  const Tensor y = Tensor::hollow_of({DType::f32, {3, 2}});
  const OpCall call{op, In(&x, 1), In(&y, 1), current_phase(), current_scope()};
  const auto round = [&] {
    const std::int64_t start = now_ns();
    for (int i = 0; i < kCalls; ++i) {
      profiler.op_begin(call);
      profiler.op_end(call);
    }
    return static_cast<double>(now_ns() - start) / kCalls;
  };
  round();  // the first touches the ring's memory
  return round();
}

}  // namespace

Session::Session(Meter& meter, SessionOptions options)
    : Session(nullptr, &meter, std::move(options)) {}

Session::Session(SessionOptions options)
    : Session(open_meter(MeterSetup::from_environment(usual_device())).meter, nullptr,
              std::move(options)) {}

Session::Session(std::unique_ptr<Meter> own, Meter* meter, SessionOptions options)
    : own_meter_(std::move(own)),
      meter_(meter ? *meter : *own_meter_),
      options_(std::move(options)),
      attribution_(options_.calibration, options_.workers > 0 ? options_.workers : cpu::threads(),
                   errors_of(meter_)),
      profiler_(
          rows_, options_.calibration.times,
          [this] {
            const std::lock_guard lock(mutex_);
            drain();
          },
          attribution_.workers()),
      ns_per_call_(measure_ns_per_call(options_.calibration.times)) {
  recent_.resize(kRecent);
  MeterSample first = read();
  note(first);
  last_ns_ = first.reading.time_ns;
  attribution_.start(first);
  if (options_.sink) options_.sink->reading(first.reading);
  guard_ = std::make_unique<ObserverGuard>(profiler_);
  sampler_ = std::thread([this] { sample_until_stopped(); });
}

Session::~Session() {
  try {
    stop();
  } catch (...) {  // stop() would have told
  }
}

void Session::sample_until_stopped() {
  using Clock = std::chrono::steady_clock;
  const auto period = std::chrono::duration<double>(options_.period.value);
  const auto save_period = std::chrono::duration<double>(options_.save_period.value);
  auto saved = Clock::now();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stopping_; })) {
    wake_.wait(lock, [this] { return stopping_ || !paused_; });
    if (stopping_) return;
    try {
      lock.unlock();
      tick();
      lock.lock();
      sampler_ns_ = thread_cpu_ns();
      if (!options_.save || Clock::now() - saved < save_period) continue;
      saved = Clock::now();
      const Ledger books = make_ledger(attribution_, rows_, provenance());
      lock.unlock();
      options_.save(books);
      lock.lock();
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failure_ = std::current_exception();
      return;
    }
  }
}

// CPU time of the profiler: of the sampling thread, of cuts, and of the hooks on every call.
std::int64_t Session::own_ns() const {
  return sampler_ns_ + cut_ns_ + profiler_.own_ns(ns_per_call_);
}

// Without the lock: ops and those who ask for totals do not wait for the meter.
MeterSample Session::read() {
  MeterSample sample;
  sample.reading = meter_.read();
  sample.cpu_ns = process_cpu_ns();
  return sample;
}

// Needs the lock.
void Session::note(MeterSample& sample) {
  sample.own_ns = own_ns();
  recent_[next_recent_++ % kRecent] = {sample.reading.time_ns, energy_of(sample.reading)};
}

// If a domain's counter has not moved, its interval goes on until it does.
void Session::tick() {
  const std::lock_guard reading(reading_);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || paused_) return;
  }
  MeterSample sample = read();
  const std::lock_guard lock(mutex_);
  note(sample);
  mark(sample, false);
  attribution_.close(drain());
}

// No op runs, so all intervals can be closed, even if an op threw and so has no end. `at_once`:
// also those of domains whose counter has yet to show what their ops drew.
std::unique_lock<std::mutex> Session::close_books(bool at_once) {
  std::unique_lock lock(mutex_);
  rethrow_failure();
  if (stopping_) return lock;
  lock.unlock();
  const std::int64_t start = thread_cpu_ns();
  MeterSample sample = read();
  lock.lock();
  note(sample);
  mark(sample, at_once);
  drain();
  attribution_.close(NotedUntil{});
  attribution_.check();
  cut_ns_ += thread_cpu_ns() - start;
  return lock;
}

void Session::mark(const MeterSample& sample, bool at_once) {
  attribution_.boundary(sample, at_once);
  last_ns_ = sample.reading.time_ns;
  if (options_.sink) options_.sink->reading(sample.reading);
}

NotedUntil Session::drain() {
  return profiler_.drain([this](std::size_t thread, const Activity& activity) {
    attribution_.add(activity);
    if (options_.sink) options_.sink->activity(thread, activity, rows_);
  });
}

EnergyTotal Session::cut() {
  profiler_.settle_device();
  const std::lock_guard reading(reading_);
  const std::unique_lock lock = close_books(false);
  return total_of_last();
}

void Session::begin_window(const std::string& name) {
  profiler_.settle_device();
  const std::lock_guard reading(reading_);
  const std::unique_lock lock = close_books(false);
  require(!stopping_, "energy window", "{}: the session has ended", name);
  require(windows_.emplace(name, attribution_).second, "energy window", "{} is open already", name);
}

Ledger Session::end_window(const std::string& name) {
  profiler_.settle_device();
  const std::lock_guard reading(reading_);
  const std::unique_lock lock = close_books(false);
  const auto window = windows_.find(name);
  require(window != windows_.end(), "energy window", "{} is not open", name);
  Ledger books = make_ledger(attribution_.since(window->second), rows_, provenance());
  windows_.erase(window);
  check(books);
  std::erase_if(books.rows, [](const LedgerRow& row) {
    return row.is_op() && row.calls == 0 && row.energy_uj == 0;
  });
  return books;
}

void Session::begin_step(Phase phase) {
  if (!options_.sample_steps || !profiler_.uses_device()) return;
  const std::lock_guard lock(mutex_);
  profiler_.begin_step(sampler_of_steps_.begin(phase, now_ns()));
}

EnergyTotal Session::total() const {
  const std::lock_guard lock(mutex_);
  return total_of_last();
}

EnergyTotal Session::total_of_last() const { return {attribution_.marked_uj(), last_ns_}; }

Watts Session::power() const {
  constexpr std::int64_t kSpan = 1'000'000'000;
  const std::lock_guard lock(mutex_);
  const auto newest = recent_[(next_recent_ - 1) % kRecent];
  auto oldest = newest;
  for (std::size_t i = 2; i <= std::min(next_recent_, kRecent); ++i) {
    const auto entry = recent_[(next_recent_ - i) % kRecent];
    if (newest.first - entry.first > kSpan) break;
    oldest = entry;
  }
  if (newest.first == oldest.first) return {0};
  return to_joules({newest.second - oldest.second}) / from_ns(newest.first - oldest.first);
}

Ledger Session::ledger() const {
  const std::lock_guard lock(mutex_);
  return final_ ? *final_ : make_ledger(attribution_, rows_, provenance());
}

Provenance Session::provenance() const {
  std::string source = meter_.source();
  const int every = sampler_of_steps_.every();
  if (profiler_.uses_device() && every > 1)
    source += fmt::format("; ops on the GPU timed in 1 step of {}", every);
  return {meter_.kind(), std::string(meter_.name()), source, options_.calibration.name};
}

// Whatever fails, the sampling thread ends first.
Ledger Session::stop() {
  try {
    profiler_.settle_device();
    const std::lock_guard reading(reading_);
    std::unique_lock lock(mutex_);
    if (final_) return *final_;
    if (!failure_) {
      lock.unlock();
      lock = close_books(true);
    }
    stopping_ = true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    stopping_ = true;
  }
  wake_.notify_all();
  if (sampler_.joinable()) sampler_.join();
  guard_.reset();
  rethrow_failure();
  Ledger books = ledger();
  check(books);
  if (options_.save) options_.save(books);
  final_ = std::move(books);
  return *final_;
}

void Session::pause() {
  profiler_.settle_device();
  const std::lock_guard reading(reading_);
  const std::unique_lock lock = close_books(true);
  guard_.reset();
  paused_ = true;
}

void Session::resume() {
  {
    const std::lock_guard reading(reading_);
    const std::unique_lock lock = close_books(true);
    if (!guard_ && !stopping_) guard_ = std::make_unique<ObserverGuard>(profiler_);
    paused_ = false;
  }
  wake_.notify_all();
}

void Session::rethrow_failure() {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace hg::energy
