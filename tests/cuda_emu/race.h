// Race detector of the emulated device. Kernels are compiled with -fsanitize=thread, but the
// functions its instrumentation calls are ours: per word of memory they keep the last writer and
// two readers with their barrier epochs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hg::emu {

#if defined(HG_EMU_RACE)
inline constexpr bool kRaceDetector = true;
#else
inline constexpr bool kRaceDetector = false;
#endif

struct Access {
  std::uint32_t launch = 0, block = 0, barriers = 0, warp_syncs = 0;
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;  // of the word: one bit each
  bool atomic = false;
  const void* code = nullptr;
};

struct Cell {                // of a word of 4 bytes
  std::uint8_t written = 0;  // bytes that have ever been
  Access writer, readers[2];
  std::uint32_t read_in = 0, written_in = 0;  // launches that did so last
};

// The bytes of global memory that kernels and products have read and written so far; those that one
// of them meets again are not counted again.
struct Traffic {
  std::uint64_t read = 0, written = 0;
};
Traffic& traffic();

enum class AccessKind { read, write, atomic };

// An access of the running kernel; reports what is wrong with it (see Block::fault).
void track(const void* p, std::size_t bytes, AccessKind kind, const void* code);

// Copies and cuBLAS: writes make bytes readable; reads of unwritten ones are reported.
void host_wrote(void* p, std::size_t bytes);
void host_reads(const char* who, const void* p, std::size_t bytes);

}  // namespace hg::emu
