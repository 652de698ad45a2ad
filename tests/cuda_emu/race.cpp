#include "tests/cuda_emu/race.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/cuda_emu/block.h"
#include "tests/cuda_emu/memory.h"

namespace hg::emu {
namespace {

// The words of one piece of tracked memory: device memory or a shared block.
struct Words {
  const std::byte* begin = nullptr;
  Cell* cells = nullptr;
  const char* where = "";
  bool global = false;
};

bool ordered(const Access& before, const Access& now) {
  if (before.launch != now.launch) return true;
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.barriers != now.barriers) return true;
  return before.thread / 32 == now.thread / 32 && before.warp_syncs != now.warp_syncs;
}

bool conflict(const Access& before, const Access& now) {
  return (before.bytes & now.bytes) != 0 && !(before.atomic && now.atomic) && !ordered(before, now);
}

[[noreturn]] void report_race(const char* what, const Words& words, const Access& before,
                              const Access& now) {
  fault(
      fmt::format("race in {} memory: {} at {} by thread {} of block {}, at {} by thread {} of "
                  "block {}, without a barrier between",
                  words.where, what, line_at(before.code), before.thread, before.block,
                  line_at(now.code), now.thread, now.block));
}

void note_traffic(Cell& cell, const Access& now, AccessKind kind) {
  if (kind != AccessKind::write && cell.read_in != now.launch && cell.written_in != now.launch)
    cell.read_in = now.launch, traffic().read += 4;
  if (kind != AccessKind::read && cell.written_in != now.launch)
    cell.written_in = now.launch, traffic().written += 4;
}

void note_reader(Cell& cell, const Access& now) {
  for (Access& reader : cell.readers)
    if (reader.bytes == 0 || ordered(reader, now)) {
      reader = now;
      return;
    }
}

void track_read(const Words& words, Cell& cell, const Access& now) {
  if ((cell.written & now.bytes) != now.bytes)
    fault(fmt::format("read of uninitialised {} memory at {}", words.where, line_at(now.code)));
  if (conflict(cell.writer, now)) report_race("write, then read", words, cell.writer, now);
  note_reader(cell, now);
}

void track_write(const Words& words, Cell& cell, const Access& now) {
  if (conflict(cell.writer, now)) report_race("write, then write", words, cell.writer, now);
  for (Access& reader : cell.readers) {
    if (conflict(reader, now)) report_race("read, then write", words, reader, now);
    if (reader.bytes & now.bytes) reader = {};
  }
  cell.written |= now.bytes;
  cell.writer = now;
}

void track_atomic(const Words& words, Cell& cell, const Access& now) {
  if ((cell.written & now.bytes) != now.bytes)
    fault(fmt::format("atomic on uninitialised {} memory at {}", words.where, line_at(now.code)));
  track_write(words, cell, now);
}

// Calls f(cell, bytes of it) for the words that [p, p + n) touches.
template <class F>
void for_words(Cell* cells, std::size_t offset, std::size_t n, F f) {
  const std::size_t end = offset + n;
  for (std::size_t word = offset / 4; word * 4 < end; ++word) {
    const std::size_t from = std::max(offset, word * 4), to = std::min(end, word * 4 + 4);
    f(cells[word], static_cast<std::uint8_t>(((1u << (to - from)) - 1) << (from % 4)));
  }
}

[[noreturn]] void out_of_bounds(const std::string& where, std::size_t n, AccessKind kind,
                                const void* code) {
  fault(fmt::format("{} of {} bytes at {}: {}", kind == AccessKind::read ? "read" : "write", n,
                    line_at(code), where));
}

Words global_words(const std::byte* p, std::size_t n, AccessKind kind, const void* code) {
  Allocation* const a = allocation_at(p);
  if (!a || !a->live || p < a->data || p + n > a->data + a->bytes)
    out_of_bounds(describe(a && a->live && p >= a->data ? p + n - 1 : p, a), n, kind, code);
  return {a->data, a->cells.data(), "global", true};
}

Words shared_words(SharedBlock& block, const std::byte* p, std::size_t n, AccessKind kind,
                   const void* code) {
  if (p < block.data() || p + n > block.data() + block.bytes)
    out_of_bounds(fmt::format("beyond {} bytes of shared memory", block.bytes), n, kind, code);
  return {block.data(), block.cells.data(), "shared"};
}

Words words_at(const std::byte* p, std::size_t n, AccessKind kind, const void* code) {
  if (in_arena(p)) return global_words(p, n, kind, code);
  if (SharedBlock* block = shared_block_at(p)) return shared_words(*block, p, n, kind, code);
  return {};  // the thread's own variables, arguments, constants
}

}  // namespace

Traffic& traffic() {
  static Traffic all;
  return all;
}

void track(const void* address, std::size_t n, AccessKind kind, const void* code) {
  if (!kRaceDetector || !in_kernel() || on_own_stack(address)) return;
  const auto* p = static_cast<const std::byte*>(address);
  const Words words = words_at(p, n, kind, code);
  if (!words.cells) return;
  Access now = current_access();
  now.code = code;
  now.atomic = kind == AccessKind::atomic;
  for_words(words.cells, static_cast<std::size_t>(p - words.begin), n,
            [&](Cell& cell, std::uint8_t bytes) {
              now.bytes = bytes;
              if (words.global) note_traffic(cell, now, kind);
              if (kind == AccessKind::read) track_read(words, cell, now);
              if (kind == AccessKind::write) track_write(words, cell, now);
              if (kind == AccessKind::atomic) track_atomic(words, cell, now);
            });
}

void host_wrote(void* p, std::size_t bytes) {
  Allocation& a = expect_device_range("write by the host", p, bytes);
  if (!kRaceDetector) return;
  for_words(a.cells.data(), static_cast<std::size_t>(static_cast<std::byte*>(p) - a.data), bytes,
            [](Cell& cell, std::uint8_t mask) { cell.written |= mask; });
}

void host_reads(const char* who, const void* p, std::size_t bytes) {
  Allocation& a = expect_device_range(who, p, bytes);
  if (!kRaceDetector) return;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(p) - a.data);
  for_words(a.cells.data(), offset, bytes, [&](Cell& cell, std::uint8_t mask) {
    if ((cell.written & mask) != mask)
      throw Fault(fmt::format("{}: read of uninitialised device memory", who));
  });
}

}  // namespace hg::emu

#if defined(HG_EMU_RACE)
using hg::emu::AccessKind;
using hg::emu::track;
extern "C" {
void __tsan_init() {}
#define HG_EMU_HOOKS(n)                                                                          \
  void __tsan_read##n(void* p) { track(p, n, AccessKind::read, __builtin_return_address(0)); }   \
  void __tsan_write##n(void* p) { track(p, n, AccessKind::write, __builtin_return_address(0)); } \
  void __tsan_unaligned_read##n(void* p) {                                                       \
    track(p, n, AccessKind::read, __builtin_return_address(0));                                  \
  }                                                                                              \
  void __tsan_unaligned_write##n(void* p) {                                                      \
    track(p, n, AccessKind::write, __builtin_return_address(0));                                 \
  }
HG_EMU_HOOKS(1)
HG_EMU_HOOKS(2)
HG_EMU_HOOKS(4)
HG_EMU_HOOKS(8)
HG_EMU_HOOKS(16)
void __tsan_read_range(void* p, std::size_t n) {
  track(p, n, AccessKind::read, __builtin_return_address(0));
}
void __tsan_write_range(void* p, std::size_t n) {
  track(p, n, AccessKind::write, __builtin_return_address(0));
}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
// Host code in the same sources: reference counts and function-local statics.
std::uint8_t __tsan_atomic8_load(const volatile std::uint8_t* p, int) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_load(const volatile std::uint32_t* p, int) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_add(volatile std::uint32_t* p, std::uint32_t v, int) {
  return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_sub(volatile std::uint32_t* p, std::uint32_t v, int) {
  return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);
}
}
#endif
