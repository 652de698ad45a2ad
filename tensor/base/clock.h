// Clocks in nanoseconds. All times of the engine are on now_ns(), which never goes back.
#pragma once

#include <time.h>

#include <cstdint>

namespace hg {

inline std::int64_t clock_ns(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline std::int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }
inline std::int64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
inline std::int64_t process_cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }  // all threads

inline double seconds_between(std::int64_t start_ns, std::int64_t end_ns) {
  return static_cast<double>(end_ns - start_ns) * 1e-9;
}
inline double seconds_since(std::int64_t start_ns) { return seconds_between(start_ns, now_ns()); }
inline double process_cpu_s() { return seconds_between(0, process_cpu_ns()); }

}  // namespace hg
