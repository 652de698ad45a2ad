// A team of threads that run one function each, kept from one call to the next.
#pragma once

namespace hg::cpu {

// CPUs that this process may run on.
int processors();

// A reference to a function of (number of the member), valid while the call it is made for lasts.
class MemberFunction {
 public:
  template <class F>
  MemberFunction(const F& f)
      : object_(&f),
        call_([](const void* o, int number) { (*static_cast<const F*>(o))(number); }) {}
  void operator()(int number) const { call_(object_, number); }

 private:
  const void* object_;
  void (*call_)(const void*, int);
};

// Calls member(0) on this thread and member(1) ... member(size - 1) on others, and returns when all
// have returned. `member` must not throw. A member may call run_team itself: every thread has
// helpers of its own. Who waits does so awake for some microseconds, then asleep: threads that have
// nothing to do leave the CPU to others.
void run_team(int size, MemberFunction member);

}  // namespace hg::cpu
