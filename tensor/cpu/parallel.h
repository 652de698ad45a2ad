// Loops shared out over OpenMP threads. Chunk limits depend on the sizes alone, never on the number
// of threads, so a kernel that reduces chunk by chunk gives the same bits with any thread count.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

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

// body(begin, end) for each chunk of `grain` items of [0, n); the last one may be shorter.
// An exception of a body reaches the caller after all threads have stopped.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  const std::int64_t chunks = (n + grain - 1) / grain;
  const int workers = threads();
  const auto chunk = [&](std::int64_t c) { body(c * grain, std::min(n, (c + 1) * grain)); };
  if (workers <= 1 || chunks <= 1) {
    for (std::int64_t c = 0; c < chunks; ++c) chunk(c);
    return;
  }
  std::exception_ptr failure;
  // The team has one size, even for fewer chunks: libgomp ends the threads that a smaller team
  // leaves over, and starts new ones for the next larger one.
#pragma omp parallel num_threads(workers)
  {
    const ThreadLimit single(1);  // for loops inside the body
#pragma omp for schedule(static)
    for (std::int64_t c = 0; c < chunks; ++c) {
      try {
        chunk(c);
      } catch (...) {
#pragma omp critical(hg_parallel_for_failure)
        if (!failure) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// body(i) for each i of [0, n), a chunk of `grain` after the other on one thread.
template <class Body>
void parallel_each(std::int64_t n, std::int64_t grain, Body&& body) {
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace hg::cpu
