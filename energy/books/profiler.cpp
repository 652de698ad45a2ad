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

// What a call on the GPU costs is booked there, not where it was launched.
void set_cost(Activity& activity, const Cost& cost) {
  if (activity.place == Place::launch) return;
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
  const std::int64_t hook_ns = now_ns();
  const std::lock_guard lock(device_mutex_);
  if (!launches_) {
    launches_ = std::make_unique<Launches>(cuda::mark_timer(), times_);
    device_log_ = std::make_shared<ThreadLog>();
    device_log_->of_device = true;
    uses_device_ = true;
    const std::lock_guard logs(mutex_);
    logs_.push_back(device_log_);
  }
  work_before_ = cuda::work_started();
  launch_ns_ = now_ns();
  log().running_since.store(launch_ns_, std::memory_order_release);
  if (launches_->earliest() == 0)
    device_log_->running_since.store(launch_ns_, std::memory_order_release);
  launch_hooks_ns_.fetch_add(launch_ns_ - hook_ns, std::memory_order_relaxed);
}

void Profiler::launch_ends(const OpCall& call) {
  const std::int64_t end_ns = now_ns();
  const std::lock_guard lock(device_mutex_);
  if (launch_ns_ == 0) return;
  const CostParts parts = call.op.cost(call.in, call.out);
  const bool to_device = cuda::work_started() != work_before_;
  note_launch(call, parts, to_device, end_ns);
  if (to_device) launches_->add({site_of(*device_log_, call, parts), parts, launch_ns_, 0});
  launch_ns_ = 0;
  collect_device(false);
  launch_hooks_ns_.fetch_add(now_ns() - end_ns, std::memory_order_relaxed);
}

// A call that gave the device nothing to do, as a view, ran on the thread alone.
void Profiler::note_launch(const OpCall& call, const CostParts& parts, bool to_device,
                           std::int64_t end_ns) {
  ThreadLog& mine = log();
  Activity whole{.start_ns = launch_ns_, .end_ns = end_ns};
  whole.place = to_device ? Place::launch : Place::cpu;
  note_parts(mine, site_of(mine, call, parts), parts, whole);
  mine.running_since.store(0, std::memory_order_release);
}

void Profiler::begin_step(bool timed) {
  const std::lock_guard lock(device_mutex_);
  if (launches_) launches_->begin_step(timed);
}

void Profiler::settle_device() {
  const std::lock_guard lock(device_mutex_);
  if (launches_) collect_device(true);
}

// A call that is not done cannot have begun before it was launched.
void Profiler::collect_device(bool wait) {
  launches_->collect(wait, [this](const GpuCall& call) { note_device(call); });
  device_log_->running_since.store(launches_->earliest(), std::memory_order_release);
}

void Profiler::note_device(const GpuCall& call) {
  Activity whole{.start_ns = call.start_ns, .end_ns = call.end_ns};
  whole.width = device_width_;
  whole.place = Place::gpu;
  note_parts(*device_log_, call.site, call.parts, whole);
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
  if (activity.place != Place::cpu) launch_entries_.fetch_add(1, std::memory_order_relaxed);
  log.head.store(head + 1, std::memory_order_release);
}

// Looks at the place that the hash gives and those after it. If all are taken, the last is reused.
Site& Profiler::site_of(ThreadLog& log, const OpCall& call, const CostParts& parts) {
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

std::int64_t Profiler::own_ns(double ns_per_call) const {
  const std::uint64_t launched = launch_entries_.load(std::memory_order_relaxed), all = calls();
  return launch_hooks_ns_.load(std::memory_order_relaxed) +
         static_cast<std::int64_t>(ns_per_call *
                                   static_cast<double>(all - std::min(all, launched)));
}

std::uint64_t Profiler::calls() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& log : logs_) sum += log->head.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace hg::energy
