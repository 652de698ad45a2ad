// Observes every op call and notes when it ran, on how many threads and what it cost. Each thread
// writes to its own ring, without locks; one reader at a time empties them. Calls on a GPU have a
// ring of their own, with the times at which the device ran them; the thread's ring has the time
// that launching them took.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "energy/books/labels.h"
#include "energy/books/launches.h"

namespace hg::energy {

class ThreadLog;

class Profiler final : public Observer {
 public:
  // on_full is called on a thread whose ring is full; it has to drain(). A call on a GPU counts as
  // work of device_width threads.
  Profiler(RowTable& rows, const PartTimes& times, std::function<void()> on_full,
           int device_width = 1);
  ~Profiler() override;

  void op_begin(const OpCall& call) override;
  void op_end(const OpCall& call) override;

  // Work outside ops, such as loading data, has a row of its own and no cost. row() looks it up,
  // once.
  RowId row(Phase phase, std::string_view layer, std::string_view op);
  void note(RowId row, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t bytes = 0);
  // Before work of this thread that may last longer than from one reading to the next.
  void note_begins();

  // Calls visit(thread, activity) for every finished call, in order for each thread. Returns the
  // starts of the earliest calls that were still running: all that began before have been visited.
  // One caller at a time.
  template <class Visit>
  NotedUntil drain(Visit&& visit);

  // Whether to time the calls of the step that begins one by one on the GPU; they are until this is
  // called. To be called while no op runs.
  void begin_step(bool timed);
  bool uses_device() const { return uses_device_.load(std::memory_order_relaxed); }
  // Waits until the GPU has run what was launched, and notes it. To be called while no op runs.
  void settle_device();

  std::uint64_t calls() const;  // noted so far
  // Thread time that the hooks took, where a call on the CPU costs so much.
  std::int64_t own_ns(double ns_per_call) const;

 private:
  void launch_begins();
  void launch_ends(const OpCall& call);
  void note_launch(const OpCall& call, const CostParts& parts, bool to_device, std::int64_t end_ns);
  void note_device(const GpuCall& call);
  void collect_device(bool wait);

  ThreadLog& log();
  ThreadLog& adopt_log();
  Site& site_of(ThreadLog& log, const OpCall& call, const CostParts& parts);
  void note_parts(ThreadLog& log, const Site& site, const CostParts& parts, Activity whole);
  void push(ThreadLog& log, const Activity& activity);

  RowTable& rows_;
  const PartTimes times_;
  const std::function<void()> on_full_;
  const std::uint64_t id_;  // never reused: tells a thread whether its log is this profiler's
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadLog>> logs_;

  const std::uint32_t device_width_;
  std::mutex device_mutex_;  // of all below
  std::unique_ptr<Launches> launches_;
  std::shared_ptr<ThreadLog> device_log_;
  std::int64_t launch_ns_ = 0;     // when the call being launched began; 0: there is none
  std::uint64_t work_before_ = 0;  // on the device's stream, then
  std::atomic<bool> uses_device_{false};
  std::atomic<std::int64_t> launch_hooks_ns_{0};
  std::atomic<std::uint64_t> launch_entries_{0};  // in the rings of threads and of the device
};

// One producer, the thread or who launches, and one consumer, which drains.
class ThreadLog {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 15, kSites = 1 << 12;

  std::atomic<std::uint64_t> head{0}, tail{0};
  std::atomic<std::int64_t> running_since{0};  // 0: no op is running
  std::atomic<bool> abandoned{false};          // its thread has ended
  std::unique_ptr<Activity[]> ring{new Activity[kCapacity]};
  std::unique_ptr<Site[]> sites{new Site[kSites]};
  bool of_device = false;
};

template <class Visit>
NotedUntil Profiler::drain(Visit&& visit) {
  std::size_t count;
  {
    const std::lock_guard lock(mutex_);
    count = logs_.size();
  }
  NotedUntil noted;
  for (std::size_t thread = 0; thread < count; ++thread) {
    std::shared_ptr<ThreadLog> log;
    {
      const std::lock_guard lock(mutex_);
      log = logs_[thread];
    }
    // Read before the ring: a call that began earlier and is not running now is in the ring.
    const std::int64_t since = log->running_since.load(std::memory_order_acquire);
    std::int64_t& until = log->of_device ? noted.gpu_ns : noted.cpu_ns;
    if (since != 0) until = std::min(until, since);
    const std::uint64_t head = log->head.load(std::memory_order_acquire);
    std::uint64_t tail = log->tail.load(std::memory_order_relaxed);
    for (; tail != head; ++tail) visit(thread, log->ring[tail % ThreadLog::kCapacity]);
    log->tail.store(tail, std::memory_order_release);
  }
  return noted;
}

}  // namespace hg::energy
