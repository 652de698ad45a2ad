#include "tensor/cpu/team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace hg::cpu {
namespace {

// A thread waits awake for about 0.2 ms, longer than most gaps between two ops: at first with the
// CPU to itself, then letting other threads have it, then asleep.
constexpr int kPauses = 1000, kYields = 500;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void wait_while(const std::atomic<int>& state, int value) {
  for (int i = 0; i < kPauses; ++i) {
    if (state.load(std::memory_order_acquire) != value) return;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (state.load(std::memory_order_acquire) != value) return;
    std::this_thread::yield();
  }
  state.wait(value, std::memory_order_acquire);
}

void tell(std::atomic<int>& state, int value) {
  state.store(value, std::memory_order_release);
  state.notify_one();
}

// A thread that waits for calls by the thread that made it.
class Helper {
 public:
  Helper() : thread_([this] { serve(); }) {}
  ~Helper() {
    tell(state_, kEnd);
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  void start(const MemberFunction& member, int number) {
    member_ = &member;
    number_ = number;
    tell(state_, kWork);
  }
  void wait() const { wait_while(state_, kWork); }

 private:
  static constexpr int kIdle = 0, kWork = 1, kEnd = 2;

  void serve() {
    for (;;) {
      wait_while(state_, kIdle);
      if (state_.load(std::memory_order_acquire) == kEnd) return;
      (*member_)(number_);
      tell(state_, kIdle);
    }
  }

  alignas(64) std::atomic<int> state_{kIdle};
  const MemberFunction* member_ = nullptr;
  int number_ = 0;
  std::thread thread_;
};

// Of each thread its own; the first `busy` of them work in teams that this thread is a member of.
thread_local std::vector<std::unique_ptr<Helper>> helpers;
thread_local std::size_t busy = 0;

}  // namespace

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void run_team(int size, MemberFunction member) {
  const std::size_t first = busy, end = first + static_cast<std::size_t>(std::max(0, size - 1));
  while (helpers.size() < end) helpers.push_back(std::make_unique<Helper>());
  busy = end;
  for (std::size_t i = first; i < end; ++i)
    helpers[i]->start(member, static_cast<int>(i - first) + 1);
  member(0);
  for (std::size_t i = first; i < end; ++i) helpers[i]->wait();
  busy = first;
}

}  // namespace hg::cpu
