// A powercap tree whose counters move by themselves.
#pragma once

#include <atomic>
#include <thread>

#include "tests/energy/meters/powercap_tree.h"

namespace hg::testing {

// 40 W in the package, which wraps and is reset on the way, 4 W in dram, psys at full speed.
class MovingTree {
 public:
  MovingTree() {
    tree_.zone("intel-rapl:0", "package-0", "262140000000\n")
        .zone("intel-rapl:0:0", "dram", "0\n")
        .zone("intel-rapl:1", "psys", "0\n");
    thread_ = std::thread([this] {
      constexpr std::uint64_t kRound = 262143328911, kStart = 262140000000;
      for (std::uint64_t ms = 0; !stop_; ms += 2) {
        tree_.set("intel-rapl:0", (kStart + ms * 40'000) % kRound);
        tree_.set("intel-rapl:0:0", ms * 4'000);
        tree_.set("intel-rapl:1", ms * 900'000);
        ms_ = ms;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  ~MovingTree() {
    stop_ = true;
    thread_.join();
  }
  const std::string& root() const { return tree_.root(); }
  double seconds() const { return static_cast<double>(ms_) * 1e-3; }

 private:
  PowercapTree tree_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> ms_ = 0;
  std::thread thread_;
};

}  // namespace hg::testing
