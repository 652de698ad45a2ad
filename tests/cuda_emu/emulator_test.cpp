// The emulator itself: every planted fault is reported, in any order of threads, and correct
// kernels run clean.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include "tests/cuda_emu/block.h"
#include "tests/cuda_emu/child.h"
#include "tests/cuda_emu/memory.h"
#include "tests/cuda_emu/planted.h"
#include "tests/cuda_emu/queue.h"

namespace hg::emu {
namespace {

constexpr unsigned kThisBuild = kAddressSanitizer ? address : race;

bool contains(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

// A line that names kernel and fault; the sanitizers write reports of their own of what they find.
void check_report(const Planted& planted, const std::string& report) {
  if (kAddressSanitizer &&
      (contains(report, "AddressSanitizer") || contains(report, "runtime error:")))
    return;
  CHECK(contains(report, planted.words));
  CHECK(report.find('\n') >= report.size() - 1);
  if (!contains(report, "host access")) CHECK(contains(report, planted.name));
}

TEST_CASE("planted faults are caught") {
  for (const Planted& planted : planted_faults()) {
    if ((planted.caught_by & kThisBuild) == 0) continue;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const ChildResult result = run_in_child([&] {
        set_seed(seed);
        planted.run();
      });
      INFO(std::string(planted.name) << ", seed " << seed << ": " << result.report);
      CHECK(result.failed);
      if (result.failed) check_report(planted, result.report);
    }
  }
}

TEST_CASE("every planted fault has a build that must catch it") {
  for (const Planted& planted : planted_faults()) CHECK((planted.caught_by & every) != 0);
}

TEST_CASE("correct kernels run clean in any order of threads") {
  for (const Correct& correct : correct_kernels())
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      INFO(std::string(correct.name) << ", seed " << seed);
      set_seed(seed);
      CHECK(correct.run());
    }
}

TEST_CASE("reports of races name both places") {
  if (!kRaceDetector) return;
  try {
    planted_faults()[1].run();  // a tile written while others read it
    FAIL("not caught");
  } catch (const Fault& e) {
    const std::string report = e.what();
    const auto first = report.find("planted.cu:");
    REQUIRE(first != std::string::npos);
    CHECK(report.find("planted.cu:", first + 1) != std::string::npos);
    CHECK(contains(report, "block (0,0,0)"));
  }
}

TEST_CASE("device memory starts as NaN") {
  float* p = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&p), 8) == cudaSuccess);
  {
    const DeviceAccess open;
    CHECK(std::isnan(p[0]));
    CHECK(std::isnan(p[1]));
  }
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK_THROWS_AS(cudaFree(p), Fault);
}

TEST_CASE("what a device refuses to launch is refused") {
  cudaLaunchConfig_t config{};
  CHECK(check_launch(config) == cudaSuccess);
  config.blockDim = dim3(1025);
  CHECK(check_launch(config) == cudaErrorInvalidConfiguration);
  config.blockDim = dim3(32);
  config.gridDim = dim3(1, 65536);
  CHECK(check_launch(config) == cudaErrorInvalidConfiguration);
  config.gridDim = dim3(0);
  CHECK(check_launch(config) == cudaErrorInvalidConfiguration);
  config.gridDim = dim3(1);
  config.dynamicSmemBytes = 48 * 1024 + 1;
  CHECK(check_launch(config) == cudaErrorInvalidValue);
}

TEST_CASE("late work waits for the ops before it") {
  cudaStream_t first = nullptr, late = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  const auto put_off_some = [&] { put_off(late, [] { return true; }); };
  queue_work();
  CHECK_THROWS_AS(put_off_some(), Fault);
  cudaEventRecord(event, nullptr);
  queue_work();
  cudaStreamWaitEvent(late, event, 0);
  CHECK_THROWS_AS(put_off_some(), Fault);
  cudaEventRecord(event, nullptr);
  cudaStreamWaitEvent(late, event, 0);
  put_off_some();
  cudaStreamSynchronize(late);
  cudaEventDestroy(event);
  for (const cudaStream_t stream : {first, late}) cudaStreamDestroy(stream);
}

TEST_CASE("copies stay inside their allocation") {
  float* p = nullptr;
  std::vector<float> host(5, 1.0f);
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&p), 16) == cudaSuccess);
  CHECK_THROWS_AS(cudaMemcpyAsync(p, host.data(), 20, cudaMemcpyHostToDevice), Fault);
  CHECK_THROWS_AS(cudaMemcpyAsync(p, p, 16, cudaMemcpyHostToDevice), Fault);
  CHECK_THROWS_AS(cudaMemsetAsync(p + 1, 0, 16), Fault);
  cudaFree(p);
}

}  // namespace
}  // namespace hg::emu
