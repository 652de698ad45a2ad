// The CUDA device, for code that includes none of CUDA's headers. tensor/cuda defines all of this;
// in builds without CUDA tensor/ops/absent.cpp does.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensor/backend.h"

namespace hg {

class CudaStream;

namespace cuda {

bool compiled();               // whether this build has kernels for a device
std::string unavailable();     // why there is no device to use; empty if there is one
Backend& backend();            // throws that reason
CudaStream& stream();          // the one that all work goes to, in order
std::uint64_t work_started();  // on the stream so far: kernels, products, copies, fills
std::string pci_bus_id();      // of the device in use: "0000:65:00.0"
struct DeviceFacts {
  std::string name;
  std::array<int, 2> capability{};  // major, minor
  std::string driver, runtime;      // versions of CUDA
  std::size_t memory_bytes = 0, free_bytes = 0;
  // What it could do at best; 0 of an emulated device, which has no clock.
  double flops_per_s = 0, tf32_flops_per_s = 0, bytes_per_s = 0;
};
DeviceFacts device_facts();
void use_tf32(bool on);  // products by tensor cores, with 10 bits of mantissa; off by default

// Copies that nobody waits for, in order with the stream's work. What is uploaded has been read
// when the call returns.
void upload(void* to, const void* from, std::size_t bytes);
class Download {
 public:
  virtual ~Download() = default;
  virtual const void* wait() = 0;  // until the data is there
};
std::unique_ptr<Download> download(const void* from, std::size_t bytes);

// Copies to the device beside the stream's work, to memory that was just allocated; from any
// thread. arrive() must be called, or this object destroyed, before that memory is freed.
class UploadAhead {
 public:
  virtual ~UploadAhead() = default;  // calls arrive()
  virtual void send(void* to, const void* from, std::size_t bytes) = 0;
  virtual void arrive() = 0;  // the stream's work from now on waits for what was sent
};
std::unique_ptr<UploadAhead> upload_ahead();

// Tells when the device came to marks among the stream's work. One thread at a time.
class MarkTimer {
 public:
  virtual ~MarkTimer() = default;
  virtual void mark() = 0;
  // When the device came to the oldest mark not returned yet, on the host's clock; none if it has
  // not, or if there is none. `wait`: until it has.
  virtual std::optional<std::int64_t> next(bool wait) = 0;
};
std::unique_ptr<MarkTimer> mark_timer();

}  // namespace cuda
}  // namespace hg
