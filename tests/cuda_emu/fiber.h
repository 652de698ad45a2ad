// Stacks to switch between: each thread of a block runs on one.
#pragma once

#include <cstddef>
#include <vector>

namespace hg::emu {

class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 128 * 1024;
  Fiber();
  Fiber(Fiber&&) = delete;

  void start(void (*body)());         // at the next resume(); whatever ran here before is forgotten
  void resume();                      // from the scheduler; returns when the fiber yields
  void yield(bool for_good = false);  // from the fiber, back to the scheduler
  bool holds(const void* address) const;

 private:
  struct Side {
    void* stack_pointer = nullptr;
    void* fake_stack = nullptr;  // of the address sanitizer
    const void* bottom = nullptr;
    std::size_t size = 0;
  };
  static void enter();
  void switch_to(Side& from, Side& to, bool for_good);

  std::byte* stack_;
  Side fiber_, scheduler_;
  void (*body_)() = nullptr;
};

}  // namespace hg::emu
