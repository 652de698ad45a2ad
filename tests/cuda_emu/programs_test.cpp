// The programs linked with CUDA's own libraries, on a machine that may have no GPU: they start, and
// say what is missing.
#include <doctest/doctest.h>

#include "tests/support/environment.h"
#include "tests/support/program.h"

namespace {

using namespace hg;
using namespace hg::testing;

Outcome run(const std::string& program, const Arguments& arguments) {
  ChildOptions options;
  options.program = program;
  return Child(arguments, options).wait();
}
Outcome hgtrain_cuda(const Arguments& arguments) { return run(HG_TRAIN_CUDA, arguments); }
Outcome hgprof_cuda(const Arguments& arguments) { return run(HG_PROF_CUDA, arguments); }

// What bench says about the device "auto"; empty: there is a GPU.
std::string missing() {
  const Outcome bench =
      hgtrain_cuda(Arguments{"bench", "shapes", "--steps", "1", "--device", "auto"} + tiny_model());
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
  check_refused(hgtrain_cuda(tiny_train(folder / "run", {"--device", "cuda"})), 2,
                {"run.device", "no NVIDIA "});
  CHECK(!exists(folder / "run"));
  const Outcome run =
      hgtrain_cuda(tiny_train(folder / "run", {"--device", "auto", "--set", "train.epochs=1"}));
  CHECK(run.code == 0);
  CHECK(run.err.find("on the CPU") != std::string::npos);
  CHECK(exists(folder / "run/model.safetensors"));
}

TEST_CASE("hgprof does the same") {
  const Arguments profile = Arguments{"shapes", "--steps", "1"} + tiny_model();
  const Outcome automatic = hgprof_cuda(profile + Arguments{"--device", "auto"});
  CHECK(automatic.code == 0);
  if (automatic.err.empty()) return;
  CHECK(automatic.err.find("on the CPU (no NVIDIA ") != std::string::npos);
  check_refused(hgprof_cuda(profile + Arguments{"--device", "cuda"}), 2,
                {"run.device", "no NVIDIA "}, "hgprof");
}

TEST_CASE("nothing of CUDA is loaded for the CPU") {
  const TempFolder folder;
  const Environment shown("LD_DEBUG", "files");  // by the system's loader, on stderr
  const Outcome run =
      hgtrain_cuda(tiny_train(folder / "run", {"--device", "cpu", "--set", "train.epochs=1"}));
  CHECK(run.code == 0);
  REQUIRE(run.err.find("libc.so") != std::string::npos);
  for (const char* library : {"libcuda", "libcublas"})
    CHECK(run.err.find(library) == std::string::npos);
}

}  // namespace
