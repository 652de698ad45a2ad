// What commands show on terminals and in pipes.
#include "tensor/base/columns.h"

#include <doctest/doctest.h>

#include "tests/support/program.h"
#include "tests/support/terminal.h"

namespace {

using namespace hg;
using namespace hg::testing;

bool any_holds(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

void check_fits(const TerminalOutcome& done, std::size_t columns) {
  CHECK(done.code == 0);
  for (const std::string& line : done.lines) {
    INFO(line);
    CHECK(width_of(line) <= columns);
  }
}

TerminalOutcome hgtrain_on_terminal(const Arguments& arguments, int columns) {
  return on_terminal(Arguments{hgtrain_path()} + arguments, columns);
}

}  // namespace

TEST_CASE("lines of epochs fit a terminal, and are one line each in a pipe") {
  const TempFolder folder;
  const TerminalOutcome shown =
      hgtrain_on_terminal(tiny_train(folder / "a", {"--set", "train.epochs=2"}), 60);
  INFO(shown.shown);
  check_fits(shown, 60);
  CHECK(any_holds(shown.lines, "epoch 2/2  loss "));
  CHECK(shown.shown.find("\r") != std::string::npos);
  CHECK(shown.shown.find(" left") != std::string::npos);  // of the bar
  const Outcome piped = hgtrain(tiny_train(folder / "b", {"--set", "train.epochs=2"}));
  std::size_t epochs = 0;
  for (const std::string& line : lines_of(piped.err))
    if (line.starts_with("epoch ")) {
      ++epochs;
      CHECK(line.ends_with(" s"));
      CHECK(line.find("J  ") != std::string::npos);
    }
  CHECK(epochs == 2);
  CHECK(piped.err.find('\r') == std::string::npos);
}

TEST_CASE("tables fit a terminal of 80 columns") {
  for (const Arguments& command : {Arguments{"info", "hugginggreen-224"},
                                   {"info", "deit-tiny", "--layers"},
                                   {"config"},
                                   {"config", "shapes"},
                                   {"meters"},
                                   {"experiment", "list"}}) {
    INFO(command[0]);
    check_fits(hgtrain_on_terminal(command, 80), 80);
  }
  const TempFolder folder;
  check_fits(hgtrain_on_terminal(Arguments{"compare", "shapes", "--attention",
                                           "softmax,linformer:rows=2", "--steps", "2"} +
                                     tiny_model(),
                                 80),
             80);
  REQUIRE(hgtrain(tiny_train(folder / "a", {"--set", "train.epochs=1"})).code == 0);
  check_fits(hgtrain_on_terminal({"eval", folder / "a"}, 80), 80);
}

TEST_CASE("an experiment tells runs done and time left, on a terminal and in a pipe") {
  const TempFolder folder;
  const auto smoke = [&](const std::string& out) {
    return Arguments{"experiment", "quick", "--scale", "smoke",
                     "--repeats",  "2",     "--out",   folder / out} +
           tiny_model() +
           set({"data.train_limit=32", "data.test_limit=16", "train.batch_size=16",
                "train.epochs=1"});
  };
  const TerminalOutcome shown = hgtrain_on_terminal(smoke("a"), 80);
  INFO(shown.shown);
  check_fits(shown, 80);
  const Outcome piped = hgtrain(smoke("b"));
  INFO(piped.err);
  CHECK(piped.code == 0);
  for (const std::vector<std::string>& lines : {shown.lines, lines_of(piped.err)}) {
    CHECK(any_holds(lines, "run 1 of "));
    std::size_t with_time = 0;
    for (const std::string& line : lines)
      with_time += line.find(", about ") != std::string::npos && line.ends_with(" left");
    CHECK(with_time >= 2);
  }
}

TEST_CASE("info gives parts of the model, and with --layers every op, with separators") {
  const Outcome brief = hgtrain({"info", "deit-tiny"}),
                whole = hgtrain({"info", "deit-tiny", "--layers"});
  CHECK(any_holds(lines_of(brief.out), "blocks.*.attn   1,778,688  "));
  CHECK(brief.out.find("blocks.3.attn") == std::string::npos);
  CHECK(lines_of(brief.out).size() < 20);
  CHECK(whole.out.find("blocks.3.attn") != std::string::npos);
  CHECK(lines_of(whole.out).size() > 100);
  for (const std::string& text : {brief.out, whole.out})
    CHECK(text.find("5,717,416 parameters; one image") != std::string::npos);
}

TEST_CASE("the device is told where it was asked for") {
  const TempFolder folder;
  const auto told = [&](const std::string& out, const Arguments& more) {
    const Outcome done =
        hgtrain(tiny_train(folder / out, Arguments{"--set", "train.epochs=1"} + more));
    CHECK(done.code == 0);
    return done.err;
  };
  const std::string plain = told("a", {}), asked = told("b", {"--device", "cpu"}),
                    chosen = told("c", {"--device", "auto"});
  CHECK(asked.find("device: CPU, 1 threads") != std::string::npos);
  if (plain.find("device: GPU") != std::string::npos) return;  // one was found
  CHECK(plain.find("device") == std::string::npos);
  CHECK(plain.find("threads: 1\n") != std::string::npos);
  CHECK(chosen.find("run.device = \"auto\": on the CPU (") != std::string::npos);
}
