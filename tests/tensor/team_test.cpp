#include "tensor/cpu/team.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "tensor/cpu/parallel.h"

using namespace hg;

TEST_CASE("each member of a team runs once, on a thread of its own, and threads are kept") {
  std::set<std::thread::id> seen;
  for (const int size : {1, 3, 2, 4, 4}) {
    std::vector<std::thread::id> ids(static_cast<std::size_t>(size));
    cpu::run_team(size, [&](int number) {
      ids[static_cast<std::size_t>(number)] = std::this_thread::get_id();
    });
    CHECK(ids[0] == std::this_thread::get_id());
    CHECK(std::set(ids.begin(), ids.end()).size() == ids.size());
    seen.insert(ids.begin(), ids.end());
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("what members write is seen by the caller, call after call") {
  constexpr int kCalls = 2000;
  std::array<int, 3> counts{};  // plain: a race would show under the thread sanitizer
  for (int i = 0; i < kCalls; ++i) {
    cpu::run_team(3, [&](int number) { ++counts[static_cast<std::size_t>(number)]; });
    if (i % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // helpers sleep
  }
  for (const int count : counts) CHECK(count == kCalls);
}

TEST_CASE("members and other threads may have teams of their own") {
  std::atomic<int> ran{0};
  const auto nested = [&] {
    cpu::run_team(2, [&](int) { cpu::run_team(3, [&](int) { ++ran; }); });
  };
  std::thread other(nested);
  nested();
  other.join();
  CHECK(ran == 2 * 2 * 3);
}

TEST_CASE("a loop covers every item once, with more threads than chunks and with fewer") {
  for (const int threads : {2, 8}) {
    const cpu::ThreadLimit limit(threads);
    std::vector<std::atomic<int>> hits(23);
    cpu::parallel_each(23, 5, [&](std::int64_t i) { ++hits[static_cast<std::size_t>(i)]; });
    for (const std::atomic<int>& hit : hits) CHECK(hit == 1);
  }
}
