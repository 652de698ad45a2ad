#include "tensor/allocator.h"

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <utility>

#include "tensor/base/error.h"
#include "tensor/memory_peak.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace hg::allocator {
namespace {

constexpr std::size_t kAlign = 64;
constexpr int kClasses = 320;

struct Arena;

struct alignas(kAlign) Header {  // stands right before the bytes handed out
  Arena* arena;
  Header* next;  // in the arena's list of free blocks
  std::uint32_t size_class;
};
static_assert(sizeof(Header) == kAlign);

// Multiples of 64 bytes up to 512, then eight steps an octave: at most one eighth is wasted.
int class_of(std::size_t bytes) {
  const std::size_t units = (bytes + kAlign - 1) / kAlign;
  if (units <= 8) return units == 0 ? 1 : static_cast<int>(units);
  const int octave = std::bit_width(units - 1) - 4;  // units in (2^(octave+3), 2^(octave+4)]
  const std::size_t step = std::size_t{1} << octave;
  return octave * 8 + static_cast<int>((units + step - 1) / step);
}

std::size_t bytes_of(int size_class) {
  if (size_class <= 8) return static_cast<std::size_t>(size_class) * kAlign;
  const int octave = (size_class - 9) / 8;
  return static_cast<std::size_t>(size_class - octave * 8) * kAlign << octave;
}

std::atomic<std::uint64_t> system_calls{0}, bytes_reserved{0};

// In use since a MemoryPeak began to watch: threads meet on it, so only while one does.
std::atomic<bool> watching{false};
std::atomic<std::int64_t> watched_bytes{0}, watched_peak{0};

void watch(std::int64_t bytes) {
  if (!watching.load(std::memory_order_relaxed)) return;
  const std::int64_t now = watched_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = watched_peak.load(std::memory_order_relaxed);
  while (now > peak && !watched_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

// Its owner, a live thread, takes and puts blocks without an atomic exchange, whose price shows
// where ops are small. Other threads hand blocks back by a list of their own, which the owner
// empties when it runs out.
struct Arena {
  std::array<Header*, kClasses> free{};
  std::atomic<Header*> returned{nullptr};
  std::atomic<std::uint64_t> bytes_taken{0}, bytes_put{0}, bytes_returned{0};
  std::uint64_t releases = 0;  // of release_cached() that it has followed
  bool owned = false;

  Header* take(int size_class) {
    if (!free[size_class]) collect_returned();
    Header* const h = free[size_class];
    if (!h) return nullptr;
    count(bytes_taken, size_class);
    free[size_class] = h->next;
    return h;
  }
  void put(Header* h) {
    count(bytes_put, static_cast<int>(h->size_class));
    list(h);
  }
  void put_back(Header* h) {  // by another thread
    bytes_returned.fetch_add(bytes_of(static_cast<int>(h->size_class)), std::memory_order_release);
    h->next = returned.load(std::memory_order_relaxed);
    while (!returned.compare_exchange_weak(h->next, h, std::memory_order_release)) {
    }
  }
  void count(std::atomic<std::uint64_t>& bytes, int size_class) {
    bytes.store(bytes.load(std::memory_order_relaxed) + bytes_of(size_class),
                std::memory_order_release);
  }
  void collect_returned() {
    Header* h = returned.exchange(nullptr, std::memory_order_acquire);
    while (h) {
      Header* const next = h->next;
      list(h);
      h = next;
    }
  }
  // What came back is read first, so that no block comes back that was never taken.
  std::uint64_t bytes_in_use() const {
    const std::uint64_t back = bytes_put + bytes_returned;
    return bytes_taken - back;
  }

 private:
  void list(Header* h) {
    h->next = free[h->size_class];
    free[h->size_class] = h;
  }
};

// Arenas outlive their threads (other threads may still hold their blocks); a new thread takes over
// an arena that lost its owner, with all it has cached.
struct Arenas {
  std::mutex mutex;
  std::vector<std::unique_ptr<Arena>> all;

  Arena* adopt() {
    const std::lock_guard lock(mutex);
    for (auto& arena : all)
      if (!arena->owned) {
        arena->owned = true;
        return arena.get();
      }
    all.push_back(std::make_unique<Arena>());
    all.back()->owned = true;
    return all.back().get();
  }
  void orphan(Arena* arena) {
    const std::lock_guard lock(mutex);
    arena->owned = false;
  }
};

Arenas& arenas() {
  static Arenas& instance = *new Arenas;  // never destroyed: tensors may outlive main
  return instance;
}

thread_local Arena* own_arena = nullptr;

struct ThreadArena {
  ThreadArena() { own_arena = arenas().adopt(); }
  ~ThreadArena() { arenas().orphan(std::exchange(own_arena, nullptr)); }
};

Arena& this_arena() {
  if (!own_arena) [[unlikely]] {
    thread_local const ThreadArena mine;
    if (!own_arena) own_arena = arenas().adopt();  // the thread is ending: `mine` has gone
  }
  return *own_arena;
}

// Cached blocks go back to the system.
void release(Arena& arena) {
  arena.collect_returned();
  for (Header*& list : arena.free)
    while (Header* h = list) {
      list = h->next;
      const std::size_t bytes = bytes_of(static_cast<int>(h->size_class));
      bytes_reserved.fetch_sub(sizeof(Header) + bytes, std::memory_order_relaxed);
      ASAN_UNPOISON_MEMORY_REGION(h + 1, bytes);
      ::operator delete (h, std::align_val_t{kAlign});
    }
}

std::atomic<std::uint64_t> releases{0};  // calls of release_cached()

void follow_releases(Arena& own) {
  const std::uint64_t asked = releases.load(std::memory_order_relaxed);
  if (std::exchange(own.releases, asked) != asked) release(own);
}

Header* from_system(Arena& own, int size_class) {
  follow_releases(own);
  const std::size_t bytes = sizeof(Header) + bytes_of(size_class);
  void* raw = ::operator new (bytes, std::align_val_t{kAlign}, std::nothrow);
  if (!raw) {
    release_cached();
    raw = ::operator new (bytes, std::align_val_t{kAlign}, std::nothrow);
  }
  require(raw != nullptr, "allocator", "no memory for {} bytes", bytes);
  system_calls.fetch_add(1, std::memory_order_relaxed);
  bytes_reserved.fetch_add(bytes, std::memory_order_relaxed);
  own.count(own.bytes_taken, size_class);
  return new (raw) Header{&own, nullptr, static_cast<std::uint32_t>(size_class)};
}

}  // namespace

void* allocate(std::size_t bytes) {
  require(bytes < (std::size_t{1} << 46), "allocator", "{} bytes is beyond any machine", bytes);
  const int size_class = class_of(bytes);
  Arena& own = this_arena();
  Header* h = own.take(size_class);
  if (!h) h = from_system(own, size_class);
  watch(static_cast<std::int64_t>(bytes_of(size_class)));
  void* p = h + 1;
  ASAN_POISON_MEMORY_REGION(p, bytes_of(size_class));
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  return p;
}

void deallocate(void* p) noexcept {
  if (!p) return;
  Header* h = static_cast<Header*>(p) - 1;
  watch(-static_cast<std::int64_t>(bytes_of(static_cast<int>(h->size_class))));
  ASAN_POISON_MEMORY_REGION(p, bytes_of(h->size_class));
  if (h->arena == own_arena)
    h->arena->put(h);
  else
    h->arena->put_back(h);
}

void release_cached() {
  releases.fetch_add(1, std::memory_order_relaxed);
  follow_releases(this_arena());
  const std::lock_guard lock(arenas().mutex);
  for (auto& arena : arenas().all)
    if (!arena->owned) release(*arena);
}

Stats stats() {
  Stats all{system_calls.load(), bytes_reserved.load(), 0};
  const std::lock_guard lock(arenas().mutex);
  for (auto& arena : arenas().all) all.bytes_in_use += arena->bytes_in_use();
  return all;
}

}  // namespace hg::allocator

namespace hg {

MemoryPeak::MemoryPeak() {
  allocator::watched_bytes = 0;
  allocator::watched_peak = 0;
  allocator::watching = true;
}

MemoryPeak::~MemoryPeak() { allocator::watching = false; }

std::uint64_t MemoryPeak::bytes() const {
  return static_cast<std::uint64_t>(allocator::watched_peak.load());
}

}  // namespace hg
