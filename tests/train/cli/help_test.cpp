// --help of every command, and guesses at words that none has.
#include <doctest/doctest.h>

#include "nn/attention/attention.h"
#include "tensor/base/columns.h"
#include "tests/support/program.h"
#include "tests/train/cli/programs.h"

using namespace hg;
using namespace hg::testing;

TEST_CASE("help of every command has defaults, an example and exit codes, in 80 columns") {
  for (const std::string program : {"hgtrain", "hgprof"}) {
    const std::vector<std::string> commands = commands_of(program);
    CHECK(commands.size() > 3);
    for (const std::string& command : commands) {
      const Outcome help = run_program(program, {command, "--help"});
      INFO(help.out);
      CHECK(help.code == 0);
      CHECK(help.err == "");
      CHECK(help.out.find("Usage: " + program + " " + command) != std::string::npos);
      CHECK(help.out.find("\nExample:\n  " + program + " " + command) != std::string::npos);
      for (const char* code : {"\n  0     success\n", "\n  1     a failure", "\n  2     bad usage"})
        CHECK(help.out.find(code) != std::string::npos);
      for (const std::string& line : lines_of(help.out))
        if (!line.starts_with("  " + program)) CHECK(width_of(line) <= 80);
    }
  }
}

TEST_CASE("help tells defaults as they are, and names that can be chosen") {
  const auto help = [](const std::string& program, const Arguments& arguments) {
    return joined_words(run_program(program, arguments + Arguments{"--help"}).out);
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    INFO(text);
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  };
  holds(help("hgtrain", {"bench"}), "--steps N steps to time (default: 10)");
  holds(help("hgtrain", {"predict"}), "the likeliest first (default: 1)");
  holds(help("hgtrain", {"train"}), "--out DIR run folder (default: runs/NAME)");
  holds(help("hgtrain", {"train"}), "130 interrupted by Ctrl-C");
  holds(help("hgprof", {"attention"}), "numbers of tokens (default: 256,1024,4096,16384)");
  holds(help("hgprof", {"attention"}), "(default: 0.7)");
  holds(help("hgprof", {"diff"}), "1 a failure of the work, or joules grew");
  for (const std::string& name : nn::attention_names()) {
    holds(help("hgtrain", {}), name);
    holds(help("hgtrain", {"compare"}), name);
  }
  holds(help("hgtrain", {}), "deit-tiny");
  CHECK(help("hgtrain", {}).find("completion") == std::string::npos);  // for the build
}

TEST_CASE("a mistyped command or option is answered with the one that was meant") {
  check_refused(hgtrain({"trian", "shapes"}), 2,
                {"trian", "unknown command", "did you mean train?"});
  check_refused(hgtrain({"confg"}), 2, {"did you mean config?"});
  check_refused(hgtrain({"xyzzyx"}), 2, {"expected one of train, eval"});
  CHECK(hgtrain({"xyzzyx"}).err.find("did you mean") == std::string::npos);
  check_refused(hgtrain({"train", "shapes", "--devcie", "cpu"}), 2,
                {"--devcie", "unknown option of hgtrain train", "did you mean --device?"});
  check_refused(hgtrain({"info", "--jsno"}), 2, {"did you mean --json?"});
  check_refused(hgprof({"shapes", "--sotr", "time"}), 2, {"did you mean --sort?"}, "hgprof");
  check_refused(hgprof({"atention"}), 2, {"did you mean attention?"}, "hgprof");
  check_refused(hgprof({"shaeps"}), 2, {"shaeps", "did you mean shapes?"}, "hgprof");
  check_refused(hgprof({"ops", "--filtre", "x"}), 2, {"hgprof ops", "did you mean --filter?"},
                "hgprof");
}

TEST_CASE("options of other programs are answered with the setting") {
  for (const auto& [option, key] : {std::pair{"--lr", "train.learning_rate"},
                                    {"--batch-size", "train.batch_size"},
                                    {"--epochs=3", "train.epochs"},
                                    {"--weight-decay", "train.weight_decay"},
                                    {"-b", "train.batch_size"},
                                    {"--num-classes", "model.num_classes"}})
    check_refused(hgtrain({"train", "shapes", option, "1"}), 2,
                  {std::string("did you mean --set ") + key + "=VALUE?"});
  check_refused(hgtrain({"train", "shapes", "train.epochs=2"}), 2,
                {"did you mean --set train.epochs=2?"});
  check_refused(hgtrain({"eval", "a", "b"}), 2, {"b: one argument too many for hgtrain eval"});
  CHECK(hgtrain({"report", "a", "--lr", "1"}).err.find("--set") == std::string::npos);
}
