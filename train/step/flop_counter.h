// Adds up the FLOPs of every op that runs while it is installed, on all threads. Ops of a loader
// (phase data) are left out: it works ahead of the steps.
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
  std::uint64_t flops() const { return all_.load(); }
  std::uint64_t flops_matmul() const { return matmul_.load(); }

 private:
  std::atomic<std::uint64_t> matmul_{0}, all_{0};
};

}  // namespace hg
