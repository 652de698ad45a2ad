#include "train/run/signals.h"

#include <signal.h>
#include <unistd.h>

namespace hg {
namespace {

volatile sig_atomic_t received = 0, urged = 0;
int alive = 0;
struct sigaction previous_interrupt, previous_terminate, previous_user;

void on_signal(int number) {
  received = 1;
  if (number == SIGUSR1) return;
  if (urged) _exit(kInterruptedExitCode);
  urged = 1;
}

}  // namespace

StopSignals::StopSignals() {
  if (alive++ > 0) return;
  received = 0;
  urged = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a write under way goes on
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_interrupt);
  sigaction(SIGTERM, &action, &previous_terminate);
  sigaction(SIGUSR1, &action, &previous_user);
}

StopSignals::~StopSignals() {
  if (--alive > 0) return;
  sigaction(SIGINT, &previous_interrupt, nullptr);
  sigaction(SIGTERM, &previous_terminate, nullptr);
  sigaction(SIGUSR1, &previous_user, nullptr);
}

bool StopSignals::requested() const { return received != 0; }

}  // namespace hg
