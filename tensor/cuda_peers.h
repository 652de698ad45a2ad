// What ranks on GPUs need of CUDA, for code that includes none of its headers. tensor/cuda defines
// all of this; in builds without CUDA tensor/ops/absent.cpp does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace hg::cuda {

// The GPU of this process: of those that CUDA shows it the one with this number, counted round.
// Before anything else asks for a device.
void choose_gpu(int number);
struct GpuInUse {
  std::string uuid;  // no other GPU has it
  int visible = 0;   // GPUs that CUDA shows this process
};
GpuInUse gpu_in_use();

// A part of floats to be packed: n of them, or as many -0 where there are none, as x + -0 is x,
// whatever x is.
struct FloatPart {
  const float* from;
  std::int64_t n;
};

// A stream of work beside that of the ops, for what GPUs exchange. Nothing waits unless said so.
class SideStream {
 public:
  virtual ~SideStream() = default;
  virtual void* handle() = 0;  // CUDA's
  // Its work from now on waits for what ops have been given to do so far.
  virtual void follow_ops() = 0;
  virtual void pack(std::span<const FloatPart> parts, float* to) = 0;
  virtual void add(const float* left, const float* right, float* sum, std::int64_t n) = 0;
  virtual void mark() = 0;                  // the end of what it has been given so far
  virtual std::size_t marks_to_come() = 0;  // that it has not reached yet
  virtual void wait_for_ops() = 0;
};
std::unique_ptr<SideStream> side_stream();

}  // namespace hg::cuda
