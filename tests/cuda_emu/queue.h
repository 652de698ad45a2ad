// The order of work on the emulated device, and how often the host has waited for it.
#pragma once

#include <cstdint>
#include <functional>

struct CUstream_st;

namespace hg::emu {

// Streams but the first work late. Work put off is tried until it says that it is done: as someone
// waits for it, or keeps asking for an event behind it. Fault: it does not wait for the ops so far.
bool is_late(const CUstream_st* stream);
void put_off(CUstream_st* stream, std::function<bool()> work);

void queue_work();              // a kernel or a product is started
std::uint64_t launches();       // of them so far
std::uint64_t event_records();  // so far
// How often the host has waited for work that it did not know to be done: on streams and events,
// and in copies from and to host memory that the device cannot reach by itself.
std::uint64_t host_waits();
std::uint64_t kernel_searches();  // so far, by cublasLt

}  // namespace hg::emu
