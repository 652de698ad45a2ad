// The programs linked with CUDA's own libraries, on a machine that may have no GPU: they start, and
// say what is missing.
#include <doctest/doctest.h>

#include "tests/train/program.h"

namespace {

using namespace hg;
using namespace hg::testing;

// What they find: as bench tells it of "auto". Empty: a GPU.
std::string missing() {
  const Outcome bench =
      hgtrain(Arguments{"bench", "shapes", "--steps", "1", "--device", "auto"} + tiny_model());
  CHECK(bench.code == 0);
  CHECK(bench.out.find("ms a step") != std::string::npos);
  return bench.err;
}

TEST_CASE("without a GPU, cuda is refused with the reason and auto is the CPU") {
  const std::string told = missing();
  if (told.empty()) return;  // there is one: ctest -L cuda has the tests
  INFO(told);
  CHECK(lines_of(told).size() == 1);
  CHECK(told.starts_with("run.device = \"auto\": on the CPU (no NVIDIA "));
  const TempFolder folder;
  check_refused(hgtrain(tiny_train(folder / "run", {"--device", "cuda"})), 2,
                {"run.device", "no NVIDIA "});
  CHECK(!exists(folder / "run"));
  const Outcome run =
      hgtrain(tiny_train(folder / "run", {"--device", "auto", "--set", "train.epochs=1"}));
  CHECK(run.code == 0);
  CHECK(run.err.find("on the CPU") != std::string::npos);
  CHECK(exists(folder / "run/model.safetensors"));
}

TEST_CASE("hgprof does the same") {
  ChildOptions options;
  options.program = HG_PROF_PROGRAM;
  const Arguments profile = Arguments{"shapes", "--steps", "1"} + tiny_model();
  const Outcome automatic = hgtrain(profile + Arguments{"--device", "auto"}, options);
  CHECK(automatic.code == 0);
  if (automatic.err.empty()) return;
  CHECK(automatic.err.find("on the CPU (no NVIDIA ") != std::string::npos);
  check_refused(hgtrain(profile + Arguments{"--device", "cuda"}, options), 2,
                {"run.device", "no NVIDIA "}, "hgprof");
}

}  // namespace
