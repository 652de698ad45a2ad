// The CUDA device, for code that includes none of CUDA's headers. tensor/cuda defines all of this;
// in builds without CUDA tensor/ops/absent.cpp does.
#pragma once

#include <memory>
#include <string>

#include "tensor/backend.h"

namespace hg {

class CudaStream;

namespace cuda {

bool compiled();            // whether this build has kernels for a device
std::string unavailable();  // why there is no device to use; empty if there is one
Backend& backend();         // throws that reason
CudaStream& stream();       // the one that all work goes to, in order
std::string pci_bus_id();   // of the device in use: "0000:65:00.0"
void use_tf32(bool on);     // products by tensor cores, with 10 bits of mantissa; off by default

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

// Times spans of the stream's work, without waiting. One thread at a time.
class SpanTimer {
 public:
  struct Span {
    std::int64_t start_ns = 0, end_ns = 0;  // on the host's clock
  };
  virtual ~SpanTimer() = default;
  virtual void begin() = 0;
  virtual void end() = 0;
  // The oldest span not returned yet, once the device is done with it; false if it is not, or if
  // there is none.
  virtual bool next(Span& span, bool wait) = 0;
};
std::unique_ptr<SpanTimer> span_timer();

}  // namespace cuda
}  // namespace hg
