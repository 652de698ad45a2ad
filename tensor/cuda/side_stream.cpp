// The stream of what GPUs exchange, by events between it and that of the ops.
#include <deque>

#include "tensor/cuda/add_floats.h"
#include "tensor/cuda/event.h"
#include "tensor/cuda_device.h"

namespace hg::cuda {
namespace {

class EventStream final : public SideStream {
 public:
  void* handle() override { return side_.handle(); }
  void follow_ops() override {
    ops_.record(stream().handle());
    ops_.hold(side_.handle());
  }
  void pack(std::span<const FloatPart> parts, float* to) override { pack_floats(parts, to, side_); }
  void add(const float* left, const float* right, float* sum, std::int64_t n) override {
    add_floats(left, right, sum, n, side_);
  }
  void mark() override {
    if (marked_ == marks_.size()) marks_.emplace_back();
    marks_[marked_++].record(side_.handle());
  }
  std::size_t marks_to_come() override {
    while (reached_ < marked_ && marks_[reached_].reached()) ++reached_;
    if (reached_ == marked_) reached_ = marked_ = 0;
    return marked_ - reached_;
  }
  void wait_for_ops() override {
    ops_.record(stream().handle());
    ops_.wait();
  }

 private:
  CudaStream side_;
  Event ops_;
  std::deque<Event> marks_;  // used again once all are reached
  std::size_t marked_ = 0, reached_ = 0;
};

}  // namespace

std::unique_ptr<SideStream> side_stream() {
  backend();  // it chooses the device of this thread, and its stream is the first
  return std::make_unique<EventStream>();
}

}  // namespace hg::cuda
