#include "tensor/cpu/parallel.h"

#include <atomic>

namespace hg::cpu {
namespace {
std::atomic<int> process_threads{0};
thread_local int limit = 0;  // 0: none
}  // namespace

int threads() {
  if (limit > 0) return limit;
  const int set = process_threads.load(std::memory_order_relaxed);
  return set > 0 ? set : processors();
}

void set_threads(int count) { process_threads.store(std::max(0, count)); }

ThreadLimit::ThreadLimit(int count) : previous_(limit) { limit = std::max(1, count); }
ThreadLimit::~ThreadLimit() { limit = previous_; }

}  // namespace hg::cpu
