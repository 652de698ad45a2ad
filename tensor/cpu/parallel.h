// Loops shared out over OpenMP threads. Chunk limits depend on the sizes alone, never on the number
// of threads, so a kernel that reduces chunk by chunk gives the same bits with any thread count.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif

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

// work(number, count) on each thread of a team of `size`, or of fewer where the system has no more;
// each lets the ops it calls use `threads_of_op`. An exception reaches the caller after all threads
// have stopped.
template <class Work>
void in_team(int size, Work&& work, int threads_of_op = 1) {
  std::exception_ptr failure;
  std::mutex mutex;
  const auto member = [&](int number, int count) {
    const ThreadLimit limit(threads_of_op);
    try {
      work(number, count);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
#ifdef __SANITIZE_THREAD__  // which cannot see how libgomp's threads wait for each other
  std::vector<std::thread> others;
  for (int number = 1; number < size; ++number) others.emplace_back(member, number, size);
  member(0, size);
  for (std::thread& other : others) other.join();
#else
  if (threads_of_op > 1) omp_set_max_active_levels(2);
#pragma omp parallel num_threads(size)
  member(omp_get_thread_num(), omp_get_num_threads());
#endif
  if (failure) std::rethrow_exception(failure);
}

// body(begin, end) for each chunk of `grain` items of [0, n); the last one may be shorter.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  const std::int64_t chunks = (n + grain - 1) / grain;
  const int workers = threads();
  const auto share = [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t c = first; c < end; ++c) body(c * grain, std::min(n, (c + 1) * grain));
  };
  if (workers <= 1 || chunks <= 1) return share(0, chunks);
  // The team has one size, even for fewer chunks: libgomp ends the threads that a smaller team
  // leaves over, and starts new ones for the next larger one.
  in_team(workers, [&](std::int64_t number, std::int64_t count) {
    share(number * chunks / count, (number + 1) * chunks / count);
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
