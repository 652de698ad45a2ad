// The stand-in for NCCL itself: floats get from process to process, and what NCCL leaves undefined
// is reported.
#include <cuda_runtime.h>
#include <doctest/doctest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

#include "tests/cuda_emu/child.h"
#include "tests/cuda_emu/race.h"

namespace hg::emu {
namespace {

constexpr std::size_t kFloats = 100'000;  // more than a socket holds

// One of two ranks, with a stream that works late.
struct Rank {
  Rank(ncclUniqueId id, int rank) : rank(rank) {
    cudaStream_t of_ops;
    cudaStreamCreateWithFlags(&of_ops, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&end, cudaEventBlockingSync);
    cudaEventRecord(end, nullptr);  // what tests before this one have started
    cudaStreamWaitEvent(stream, end, 0);
    cudaMalloc(&memory, 2 * kFloats * sizeof(float));
    const std::vector<float> own(kFloats, static_cast<float>(1 + rank));
    cudaMemcpyAsync(memory, own.data(), kFloats * sizeof(float), cudaMemcpyHostToDevice);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    settle();
  }

  float* own() const { return static_cast<float*>(memory); }
  float* others() const { return own() + kFloats; }
  int other() const { return 1 - rank; }
  bool settled() const {
    ncclResult_t state;
    ncclCommGetAsyncError(comm, &state);
    if (state == ncclRemoteError) throw std::runtime_error("the other rank has ended");
    return state == ncclSuccess;
  }
  void settle() const {
    while (!settled()) usleep(1000);
  }
  void end_group() const {
    ncclGroupEnd();
    settle();
  }
  void send(std::size_t floats) const {
    ncclSend(own(), floats, ncclFloat32, other(), comm, stream);
  }
  void receive(std::size_t floats) const {
    ncclRecv(others(), floats, ncclFloat32, other(), comm, stream);
  }
  void await() const {
    cudaEventRecord(end, stream);
    while (cudaEventQuery(end) != cudaSuccess) settled();
  }

  const int rank;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t end = nullptr;
  void* memory = nullptr;
};

// What both report.
ChildResult on_two_ranks(const std::function<void(const Rank&)>& body) {
  return run_in_child([&] {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    const pid_t second = fork();
    if (second != 0) {
      body(Rank(id, 0));
      int status = 0;
      waitpid(second, &status, 0);
      if (status != 0) throw std::runtime_error("");
      return;
    }
    try {
      body(Rank(id, 1));
      _exit(0);
    } catch (const std::exception& e) {
      std::fputs(e.what(), stderr);
      std::fflush(stderr);
      _exit(3);
    }
  });
}

void check_reported(const std::function<void(const Rank&)>& body, const char* words) {
  const ChildResult result = on_two_ranks(body);
  INFO(result.report);
  CHECK(result.failed);
  CHECK(result.report.find(words) != std::string::npos);
}

TEST_CASE("floats get from process to process, in order") {
  const ChildResult result = on_two_ranks([](const Rank& r) {
    for (const std::size_t floats : {kFloats, std::size_t{1}}) {
      ncclGroupStart();
      r.send(floats);
      r.receive(floats);
      r.end_group();
    }
    r.await();
    std::vector<float> got(kFloats);
    cudaMemcpyAsync(got.data(), r.others(), kFloats * sizeof(float), cudaMemcpyDeviceToHost);
    if (got != std::vector<float>(kFloats, static_cast<float>(2 - r.rank)))
      throw std::runtime_error("other floats");
    ncclCommFinalize(r.comm);
    r.settle();
    ncclCommDestroy(r.comm);
  });
  INFO(result.report);
  CHECK(!result.failed);
}

TEST_CASE("messages that do not match are reported") {
  check_reported([](const Rank& r) { r.send(1); }, "ncclSend: outside of a group");
  check_reported(
      [](const Rank& r) {
        ncclGroupStart();
        r.send(r.rank == 0 ? 3 : 4);
        r.receive(3);
        r.end_group();
        r.await();
      },
      "ncclRecv: rank 1 sends 4 floats, rank 0 expects 3");
  check_reported(
      [](const Rank& r) {
        ncclGroupStart();
        r.send(2);
        r.end_group();
        r.await();
        for (;; r.settle()) ncclCommFinalize(r.comm);
      },
      "has not received a message of rank");
  check_reported(
      [](const Rank& r) {
        ncclGroupStart();
        r.send(2 * kFloats + 1);
      },
      "ncclSend: 800004 bytes at");
  check_reported([](const Rank&) { ncclGroupEnd(); }, "ncclGroupEnd: there is no group");
}

TEST_CASE("calls before the last one has taken effect are reported") {
  const auto exchange = [](const Rank& r) {
    ncclGroupStart();
    r.send(1);
    r.receive(1);
    ncclGroupEnd();
  };
  check_reported(
      [&](const Rank& r) {
        exchange(r);
        exchange(r);
      },
      "ncclGroupEnd: before the last call has taken effect");
  check_reported(
      [](const Rank& r) {
        ncclCommFinalize(r.comm);
        ncclCommDestroy(r.comm);
      },
      "ncclCommDestroy: before the last call has taken effect");
}

TEST_CASE("floats that nobody has written are not sent") {
  if (!kRaceDetector) return;
  check_reported(
      [](const Rank& r) {
        ncclGroupStart();
        ncclSend(r.others(), 1, ncclFloat32, r.other(), r.comm, r.stream);
        r.receive(1);
        r.end_group();
        r.await();
      },
      "ncclSend: read of uninitialised device memory");
}

}  // namespace
}  // namespace hg::emu
