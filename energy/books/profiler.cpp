#include "energy/books/profiler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/base/clock.h"
#include "tensor/cpu/parallel.h"

namespace hg::energy {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// A thread's log, of the last profiler that it worked under.
struct Holder {
  std::uint64_t owner = 0;
  std::shared_ptr<ThreadLog> log;
  void release() {
    if (log) {
      log->running_since.store(0, std::memory_order_release);  // an op that threw has no end
      log->abandoned.store(true, std::memory_order_release);
    }
    log.reset();
  }
  ~Holder() { release(); }
};
thread_local Holder holder;

std::size_t hash(const ScopePath* scope, const char* op, Phase phase) {
  auto h = reinterpret_cast<std::uintptr_t>(scope) * 0x9E3779B97F4A7C15u;
  h ^= reinterpret_cast<std::uintptr_t>(op) + static_cast<std::uintptr_t>(phase);
  return (h * 0x9E3779B97F4A7C15u) >> 40;
}

bool on_gpu(const OpCall& call) {
  return !call.out.empty() && call.out[0].device() == Device::cuda;
}

void set_cost(Activity& activity, const Cost& cost) {
  activity.flops_mm = cost.flops_mm;
  activity.flops_ew = cost.flops_ew;
  activity.bytes = cost.bytes();
}

}  // namespace

Profiler::Profiler(RowTable& rows, const PartTimes& times, std::function<void()> on_full,
                   int device_width)
    : rows_(rows),
      times_(times),
      on_full_(std::move(on_full)),
      id_(next_id()),
      device_width_(static_cast<std::uint32_t>(device_width)) {}

Profiler::~Profiler() = default;

ThreadLog& Profiler::log() { return holder.owner == id_ ? *holder.log : adopt_log(); }

// A new thread takes the log of one that ended, once that is empty.
ThreadLog& Profiler::adopt_log() {
  holder.release();
  const std::lock_guard lock(mutex_);
  for (const auto& log : logs_)
    if (log->abandoned.load(std::memory_order_acquire) && log->head.load() == log->tail.load()) {
      log->abandoned.store(false);
      log->running_since.store(0);
      holder.log = log;
      break;
    }
  if (!holder.log) holder.log = logs_.emplace_back(std::make_shared<ThreadLog>());
  holder.owner = id_;
  return *holder.log;
}

void Profiler::op_begin(const OpCall& call) {
  if (on_gpu(call)) return launch_begins();
  log().running_since.store(now_ns(), std::memory_order_release);
}

void Profiler::op_end(const OpCall& call) {
  if (on_gpu(call)) return launch_ends(call);
  const std::int64_t end = now_ns();
  ThreadLog& mine = log();
  const std::int64_t start = mine.running_since.load(std::memory_order_relaxed);
  if (start == 0) return;
  const CostParts parts = call.op.cost(call.in, call.out);
  Activity activity{.start_ns = start, .end_ns = end};
  activity.width = static_cast<std::uint32_t>(cpu::threads());
  note_parts(mine, site_of(mine, call, parts), parts, activity);
  mine.running_since.store(0, std::memory_order_release);
}

// Launches come from one thread at a time, which is then the producer of the device's ring.
void Profiler::launch_begins() {
  const std::lock_guard lock(device_mutex_);
  if (!timer_) {
    timer_ = cuda::span_timer();
    device_log_ = std::make_shared<ThreadLog>();
    const std::lock_guard logs(mutex_);
    logs_.push_back(device_log_);
  }
  launch_ns_ = now_ns();
  if (launched_.empty()) device_log_->running_since.store(launch_ns_, std::memory_order_release);
  timer_->begin();
}

void Profiler::launch_ends(const OpCall& call) {
  const std::lock_guard lock(device_mutex_);
  if (launch_ns_ == 0) return;
  timer_->end();
  const CostParts parts = call.op.cost(call.in, call.out);
  launched_.push_back({site_of(*device_log_, call, parts), parts, std::exchange(launch_ns_, 0)});
  note_launched(false);
}

void Profiler::settle_device() {
  const std::lock_guard lock(device_mutex_);
  if (timer_) note_launched(true);
}

// A call that is not done cannot have begun before it was launched.
void Profiler::note_launched(bool wait) {
  cuda::SpanTimer::Span span;
  while (!launched_.empty() && timer_->next(span, wait)) {
    const Launched& done = launched_.front();
    Activity activity{.start_ns = std::max(span.start_ns, done.launch_ns)};
    activity.end_ns = std::max(span.end_ns, activity.start_ns);
    activity.width = device_width_;
    note_parts(*device_log_, done.site, done.parts, activity);
    launched_.pop_front();
  }
  device_log_->running_since.store(launched_.empty() ? 0 : launched_.front().launch_ns,
                                   std::memory_order_release);
}

// One after the other, each as long as its cost suggests.
void Profiler::note_parts(ThreadLog& log, const Site& site, const CostParts& parts,
                          Activity whole) {
  if (site.parts == 1) {
    set_cost(whole, parts.total());
    whole.row = site.rows[0];
    return push(log, whole);
  }
  const double all = times_.estimate(parts.total());
  const auto length = static_cast<double>(whole.end_ns - whole.start_ns);
  Activity activity = whole;
  double done = 0;
  for (std::size_t i = 0; i < site.parts; ++i) {
    const Cost& cost = parts.begin()[i].cost;
    done += times_.estimate(cost);
    if (cost == Cost{} && all > 0) continue;
    activity.end_ns =
        all > 0 ? whole.start_ns + std::llround(length * std::min(1.0, done / all)) : whole.end_ns;
    activity.row = site.rows[i];
    set_cost(activity, cost);
    push(log, activity);
    activity.start_ns = activity.end_ns;
  }
}

void Profiler::push(ThreadLog& log, const Activity& activity) {
  const std::uint64_t head = log.head.load(std::memory_order_relaxed);
  if (head - log.tail.load(std::memory_order_acquire) == ThreadLog::kCapacity) on_full_();
  log.ring[head % ThreadLog::kCapacity] = activity;
  log.head.store(head + 1, std::memory_order_release);
}

// Looks at the place that the hash gives and those after it. If all are taken, the last is reused.
Profiler::Site& Profiler::site_of(ThreadLog& log, const OpCall& call, const CostParts& parts) {
  constexpr std::size_t kProbes = 16;
  const char* const name = call.op.name().data();
  const std::size_t home = hash(call.scope, name, call.phase);
  Site* site = nullptr;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    site = &log.sites[(home + probe) % ThreadLog::kSites];
    if (site->scope == call.scope && site->op == name && site->phase == call.phase) return *site;
    if (site->scope == nullptr) break;
  }
  *site = {call.scope, name, call.phase, 1, {}};
  const bool leaf = !call.scope->op.empty();
  site->parts = leaf ? 1 : static_cast<std::uint32_t>(parts.end() - parts.begin());
  for (std::size_t i = 0; i < site->parts; ++i)
    site->rows[i] = row(call.phase, call.scope->layer,
                        row_op(*call.scope, call.op.name(), leaf ? "" : parts.begin()[i].name));
  return *site;
}

RowId Profiler::row(Phase phase, std::string_view layer, std::string_view op) {
  return rows_.find_or_add({std::string(to_string(phase)), std::string(layer), std::string(op)});
}

void Profiler::note_begins() { log().running_since.store(now_ns(), std::memory_order_release); }

void Profiler::note(RowId row, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t bytes) {
  ThreadLog& mine = log();
  push(mine, {.start_ns = start_ns, .end_ns = end_ns, .bytes = bytes, .row = row, .width = 1});
  mine.running_since.store(0, std::memory_order_release);
}

std::uint64_t Profiler::calls() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& log : logs_) sum += log->head.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace hg::energy
