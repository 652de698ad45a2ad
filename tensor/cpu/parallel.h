// Loops shared out over threads. Chunk limits depend on the sizes alone, never on the number
// of threads, so a kernel that reduces chunk by chunk gives the same bits with any thread count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

#include "tensor/cpu/team.h"

namespace hg::cpu {

// Threads that one op may use when called from this thread: the innermost ThreadLimit, else the
// process-wide setting, else every core.
int threads();
void set_threads(int count);  // process-wide; 0 = every core

// While alive, ops called from this thread use at most `count` threads (whole net per group: 1).
class ThreadLimit {
 public:
  explicit ThreadLimit(int count);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int previous_;
};

// work(number) on each thread of a team of `size`; each lets the ops it calls use `threads_of_op`.
// An exception reaches the caller after all threads have stopped.
template <class Work>
void in_team(int size, Work&& work, int threads_of_op = 1) {
  std::exception_ptr failure;
  std::mutex mutex;
  const auto member = [&](int number) {
    const ThreadLimit limit(threads_of_op);
    try {
      work(number);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  run_team(size, member);
  if (failure) std::rethrow_exception(failure);
}

// body(begin, end) for each chunk of `grain` items of [0, n); the last one may be shorter.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  const std::int64_t chunks = (n + grain - 1) / grain;
  const std::int64_t workers = std::min<std::int64_t>(threads(), chunks);
  const auto share = [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t c = first; c < end; ++c) body(c * grain, std::min(n, (c + 1) * grain));
  };
  if (workers <= 1) return share(0, chunks);
  in_team(static_cast<int>(workers), [&](std::int64_t number) {
    share(number * chunks / workers, (number + 1) * chunks / workers);
  });
}

// body(i) for each i of [0, n), a chunk of `grain` after the other on one thread.
template <class Body>
void parallel_each(std::int64_t n, std::int64_t grain, Body&& body) {
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace hg::cpu
