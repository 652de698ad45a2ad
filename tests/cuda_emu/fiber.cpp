#include "tests/cuda_emu/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the callee-saved registers, switches stacks and returns on the other one.
// rdi: where to leave the stack pointer; rsi: the one to take.
asm(R"(
.text
.globl hg_emu_switch
.type hg_emu_switch, @function
hg_emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size hg_emu_switch, . - hg_emu_switch
)");
extern "C" void hg_emu_switch(void** from, void* to);

namespace hg::emu {
namespace {
Fiber* entering = nullptr;
}

// Stacks are never freed: block after block uses them. A page below each one is not accessible.
Fiber::Fiber() {
  constexpr std::size_t kGuard = 4096;
  void* const region = mmap(nullptr, kGuard + kStackBytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(region) + kGuard;
  if (mprotect(stack_, kStackBytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  fiber_.bottom = stack_;
  fiber_.size = kStackBytes;
}

bool Fiber::holds(const void* address) const {
  const auto* p = static_cast<const std::byte*>(address);
  return p >= stack_ && p < stack_ + kStackBytes;
}

void Fiber::start(void (*body)()) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  body_ = body;
  // Six registers and the address of enter(), with the alignment that a call would give.
  auto** top = reinterpret_cast<void**>(stack_ + kStackBytes) - 1;
  *top = nullptr;
  *--top = reinterpret_cast<void*>(&Fiber::enter);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber_.stack_pointer = top;
  fiber_.fake_stack = nullptr;
}

void Fiber::enter() {
  Fiber& self = *entering;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_.bottom, &self.scheduler_.size);
#endif
  self.body_();
  self.yield(true);
  __builtin_unreachable();
}

void Fiber::switch_to(Side& from, Side& to, [[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake_stack, to.bottom, to.size);
#endif
  hg_emu_switch(&from.stack_pointer, to.stack_pointer);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, &to.bottom, &to.size);
#endif
}

void Fiber::resume() {
  entering = this;
  switch_to(scheduler_, fiber_, false);
}

void Fiber::yield(bool for_good) { switch_to(fiber_, scheduler_, for_good); }

}  // namespace hg::emu
