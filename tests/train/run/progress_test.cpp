#include "train/run/progress.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "tests/support/temp_folder.h"
#include "train/run/signals.h"

namespace hg::testing {
namespace {

ProgressState example() {
  return {.title = "epoch 2/5",
          .fraction = 0.5,
          .loss = 0.42,
          .images_per_s = 5321.4,
          .seconds_left = 125,
          .fields = {"31 W", "1.2 kJ", "0.1 g CO2"}};
}

// What a Progress writes with a clock that moves on by 1 s a call.
template <class F>
std::string shown(ProgressMode mode, F&& use) {
  TempFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  double now = 0;
  {
    Progress progress(out, mode, 20, 0, [&] { return now += 1; });
    use(progress);
  }
  std::fclose(out);
  return contents_of(folder / "out");
}

void run_two_steps(Progress& progress) {
  progress.begin("epoch 1/2");
  progress.step(100, 0.5);
  progress.step(100, 0.25, [] { return ProgressFields{"31 W"}; });
  progress.line("epoch 1/2: accuracy 0.8");
}

// The exit code of a child that runs f() and then ends with 0.
template <class F>
int exit_code_of(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a wide line shows everything") {
  CHECK(render_progress(example(), 120, false) ==
        "epoch 2/5 [###############---------------]  50%  loss 0.4200  2:05 left  5321 images/s  "
        "31 W  1.2 kJ  0.1 g CO2");
}

TEST_CASE("a line is shorter than the terminal, and drops the last figures first") {
  for (int columns = 0; columns < 130; ++columns)
    CHECK(render_progress(example(), columns, false).size() <
          static_cast<std::size_t>(std::max(columns, 1)));
  const std::string narrow = render_progress(example(), 60, false);
  CHECK(narrow.find("2:05 left") != std::string::npos);
  CHECK(narrow.find("CO2") == std::string::npos);
}

TEST_CASE("odd figures do not break the line") {
  ProgressState state = example();
  state.fraction = NAN;
  state.loss = INFINITY;
  state.seconds_left = NAN;
  CHECK(render_progress(state, 80, false).find("? left") != std::string::npos);
  state.fraction = 7;
  CHECK(render_progress(state, 80, false).find("100%") != std::string::npos);
}

TEST_CASE("colour is in the bar only where wanted") {
  CHECK(render_progress(example(), 80, true).find("\x1b[") != std::string::npos);
  CHECK(render_progress(example(), 80, false).find("\x1b[") == std::string::npos);
}

TEST_CASE("a pipe gets the epoch's line alone, quiet nothing") {
  CHECK(shown(ProgressMode::plain, run_two_steps) == "epoch 1/2: accuracy 0.8\n");
  CHECK(shown(ProgressMode::quiet, run_two_steps) == "");
}

TEST_CASE("a terminal gets a bar that goes before the line") {
  setenv("NO_COLOR", "1", 1);
  const std::string text = shown(ProgressMode::bar, run_two_steps);
  CHECK(text.find("\r" + std::string("epoch 1/2 [")) == 0);
  CHECK(text.find("\x1b[32m") == std::string::npos);
  CHECK(text.find("loss 0.2500  18 s left  100 images/s  31 W") != std::string::npos);
  CHECK(text.ends_with("\r\x1b[Kepoch 1/2: accuracy 0.8\n"));
  unsetenv("NO_COLOR");
  CHECK(shown(ProgressMode::bar, run_two_steps).find("\x1b[32m") != std::string::npos);
}

TEST_CASE("a file is no terminal") {
  std::FILE* out = std::fopen("/dev/null", "w");
  CHECK(progress_mode(out, false) == ProgressMode::plain);
  CHECK(progress_mode(out, true) == ProgressMode::quiet);
  std::fclose(out);
}

TEST_CASE("the first signal asks, the second ends at once") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CHECK(exit_code_of([&] {
            StopSignals stop;
            if (stop.requested()) _exit(1);
            raise(signal);
            if (!stop.requested()) _exit(2);
          }) == 0);
    CHECK(exit_code_of([&] {
            StopSignals stop;
            raise(signal);
            raise(SIGINT);
          }) == kInterruptedExitCode);
    CHECK(exit_code_of([&] {  // what came to the inner one is known to the outer
            StopSignals outer;
            {
              StopSignals inner;
              raise(signal);
            }
            if (!outer.requested() || !StopSignals().requested()) _exit(1);
          }) == 0);
  }
  CHECK(exit_code_of([] {  // as before, once it is gone
          signal(SIGTERM, SIG_DFL);
          { StopSignals stop; }
          raise(SIGTERM);
        }) == -1);
}

TEST_CASE("a note stays on a terminal and is shown nowhere else") {
  const auto noting = [](Progress& progress) { progress.note("predicted: 3 J"); };
  CHECK(shown(ProgressMode::bar, noting).find("predicted: 3 J\n") != std::string::npos);
  CHECK(shown(ProgressMode::plain, noting) == "");
  CHECK(shown(ProgressMode::quiet, noting) == "");
}

}  // namespace hg::testing
