// Adds up the FLOPs of every op that runs while it is installed, on all threads, but for those of
// phase data: a loader works ahead, and its FLOPs count with the batch they were for (add()).
#pragma once

#include <atomic>

#include "tensor/observer.h"

namespace hg {

class FlopCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    if (call.phase == Phase::data) return;
    const Cost cost = call.op.cost(call.in, call.out).total();
    matmul_.fetch_add(cost.flops_mm, std::memory_order_relaxed);
    all_.fetch_add(cost.flops(), std::memory_order_relaxed);
  }
  void add(std::uint64_t elementwise) { all_ += elementwise; }
  std::uint64_t flops() const { return all_.load(); }
  std::uint64_t flops_matmul() const { return matmul_.load(); }
  void start_at(std::uint64_t flops, std::uint64_t matmul) {
    all_ = flops;
    matmul_ = matmul;
  }

 private:
  std::atomic<std::uint64_t> matmul_{0}, all_{0};
};

}  // namespace hg
