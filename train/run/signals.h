// Ctrl-C and kill: the first SIGINT or SIGTERM asks for an orderly end, the second ends at once.
// SIGUSR1, which batch systems send ahead of the end of a job's time, asks for it as often as it
// comes.
#pragma once

namespace hg {

inline constexpr int kInterruptedExitCode = 130;

// While alive, the signals set a flag that the trainer looks at after each step; a second
// one of the first two ends the process with kInterruptedExitCode. One inside another shares its
// flag.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // puts the handlers before it back
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const;
};

}  // namespace hg
