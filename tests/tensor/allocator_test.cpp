// The caching allocator, seen through its addresses and figures.
#include "tensor/allocator.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstring>
#include <latch>
#include <limits>
#include <set>
#include <thread>

#include "tensor/base/error.h"
#include "tensor/memory_peak.h"

using namespace hg;
using allocator::allocate;
using allocator::deallocate;
using allocator::stats;

// Without it the sanitizer ends the process where a real allocator returns null.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::uint64_t bytes_taken_by(std::size_t bytes) {
  const std::uint64_t before = stats().bytes_in_use;
  void* p = allocate(bytes);
  const std::uint64_t taken = stats().bytes_in_use - before;
  deallocate(p);
  return taken;
}

// No more than `bytes` of address space for the process while alive.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &previous_);
    const rlimit limit{bytes, previous_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &previous_); }

 private:
  rlimit previous_;
};

}  // namespace

TEST_CASE("blocks are aligned to 64 bytes and distinct even when empty") {
  std::set<void*> blocks;
  for (const std::size_t bytes : {0, 0, 1, 63, 64, 65, 511, 513, 4097, 1 << 20}) {
    void* p = allocate(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    std::memset(p, 0xab, bytes);
    CHECK(blocks.insert(p).second);
  }
  for (void* p : blocks) deallocate(p);
  deallocate(nullptr);
}

TEST_CASE("a size class covers the request and wastes at most an eighth") {
  CHECK(bytes_taken_by(0) == 64);
  CHECK(bytes_taken_by(64) == 64);
  CHECK(bytes_taken_by(65) == 128);
  CHECK(bytes_taken_by(512) == 512);
  CHECK(bytes_taken_by(1025) == 1152);
  std::uint64_t previous = 0;
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 26); bytes += 1 + bytes / 23) {
    const std::uint64_t taken = bytes_taken_by(bytes);
    INFO(bytes << " bytes take " << taken);
    REQUIRE(taken >= bytes);
    REQUIRE(taken <= std::max(bytes + 63, bytes + bytes / 8));
    REQUIRE(taken >= previous);
    previous = taken;
  }
  allocator::release_cached();
}

TEST_CASE("a freed block serves the next request of its class without a system call") {
  void* first = allocate(1000);
  deallocate(first);
  const std::uint64_t calls = stats().system_calls;
  void* again = allocate(1024);
  CHECK(again == first);
  deallocate(again);
  again = allocate(961);
  CHECK(again == first);
  CHECK(stats().system_calls == calls);
  void* other_class = allocate(1025);
  CHECK(other_class != first);
  deallocate(again);
  deallocate(other_class);
}

TEST_CASE("a block freed by another thread returns to its own arena") {
  constexpr std::size_t kBytes = 7'654'321;
  void* mine = allocate(kBytes);
  void* theirs = nullptr;
  std::thread([&] {
    deallocate(mine);
    theirs = allocate(kBytes);  // from this thread's arena, not the block just freed
  }).join();
  CHECK(theirs != mine);
  const std::uint64_t calls = stats().system_calls;
  void* again = allocate(kBytes);
  CHECK(again == mine);
  CHECK(stats().system_calls == calls);
  deallocate(again);
  deallocate(theirs);
  allocator::release_cached();
}

TEST_CASE("a new thread takes over the cache of one that ended") {
  constexpr std::size_t kBytes = 5'432'100;
  const auto use = [] { deallocate(allocate(kBytes)); };
  std::thread(use).join();
  const std::uint64_t calls = stats().system_calls;
  std::thread(use).join();
  CHECK(stats().system_calls == calls);
  allocator::release_cached();
}

TEST_CASE("release_cached gives back everything that is not in use") {
  allocator::release_cached();
  const allocator::Stats before = stats();
  void* kept = allocate(100'000);
  std::memset(kept, 0x5a, 100'000);
  const std::uint64_t with_kept = stats().bytes_reserved;
  for (const std::size_t bytes : {1, 1000, 1'000'000}) deallocate(allocate(bytes));
  std::thread([] { deallocate(allocate(3'000'000)); }).join();
  CHECK(stats().bytes_reserved > with_kept + 4'001'001);
  CHECK(stats().bytes_in_use == before.bytes_in_use + bytes_taken_by(100'000));
  allocator::release_cached();
  CHECK(stats().bytes_reserved == with_kept);
  CHECK(static_cast<unsigned char*>(kept)[99'999] == 0x5a);
  deallocate(kept);
  allocator::release_cached();
  CHECK(stats().bytes_reserved == before.bytes_reserved);
  CHECK(stats().bytes_in_use == before.bytes_in_use);
  CHECK(stats().system_calls == before.system_calls + 6);  // bytes_taken_by asked for one, too
}

TEST_CASE("after release_cached another thread gives its cache back when it next misses") {
  std::latch cached(1), released(1);
  std::uint64_t before = 0, after = 0;
  std::thread other([&] {
    deallocate(allocate(3'000'000));
    cached.count_down();
    released.wait();
    before = stats().bytes_reserved;
    void* const missed = allocate(5'000'000);
    after = stats().bytes_reserved;
    deallocate(missed);
  });
  cached.wait();
  allocator::release_cached();
  released.count_down();
  other.join();
  CHECK(after - before == bytes_taken_by(5'000'000) - bytes_taken_by(3'000'000));
  allocator::release_cached();
}

TEST_CASE("the peak is the most in use at a time, whichever thread holds it") {
  constexpr std::uint64_t kBlock = 1 << 20;
  void* const held = allocate(kBlock);
  const MemoryPeak peak;
  CHECK(peak.bytes() == 0);
  deallocate(allocate(2 * kBlock));
  std::thread([] { deallocate(allocate(kBlock)); }).join();
  CHECK(peak.bytes() == 2 * kBlock);
  std::thread([&] {
    void* const p = allocate(3 * kBlock);
    deallocate(held);
    deallocate(p);
  }).join();
  CHECK(peak.bytes() == 3 * kBlock);
  const MemoryPeak later;
  CHECK(later.bytes() == 0);
}

TEST_CASE("absurd sizes throw hg::Error") {
  CHECK_THROWS_WITH_AS(allocate(std::numeric_limits<std::size_t>::max()),
                       "allocator: 18446744073709551615 bytes is beyond any machine", Error);
  CHECK_THROWS_AS(allocate(std::size_t{1} << 46), Error);
}

TEST_CASE("memory that runs out throws hg::Error after the cache was given back") {
  deallocate(allocate(10'000'000));
  const allocator::Stats before = stats();
  constexpr std::size_t kBytes = std::size_t{1} << 45;
  if (kSanitized) {
    CHECK_THROWS_AS(allocate(kBytes), Error);
  } else {
    const AddressSpaceLimit limit(rlim_t{1} << 40);
    CHECK_THROWS_WITH_AS(allocate(kBytes), "allocator: no memory for 35184372088896 bytes", Error);
  }
  CHECK(stats().bytes_in_use == before.bytes_in_use);
  CHECK(stats().bytes_reserved <= before.bytes_reserved - 10'000'000);
  CHECK(stats().system_calls == before.system_calls);
  deallocate(allocate(1000));
}

TEST_CASE("standard containers can live on the allocator") {
  const std::uint64_t before = stats().bytes_in_use;
  {
    CachedVector<double> v(1000, 1.5);
    CHECK(stats().bytes_in_use >= before + 8000);
    CHECK(v.back() == 1.5);
  }
  CHECK(stats().bytes_in_use == before);
}
