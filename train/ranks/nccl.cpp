// The link of ranks' GPUs by NCCL: the module that is loaded where ranks train on them. Nothing
// else knows NCCL. Floats are sent and received, and added by ours: the bits of NCCL's own sums
// depend on the network.
#include <nccl.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "train/ranks/device_link.h"

namespace hg {
namespace {

class NcclLink final : public DeviceLink {
 public:
  ~NcclLink() override { give_up(); }

  std::string id() override {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "cannot make an id");
    return {id.internal, sizeof id.internal};
  }

  // Calls return at once, and settled() tells when they have taken effect: the host can look after
  // other ranks meanwhile.
  void connect(const std::string& id, int rank, int size) override {
    ncclUniqueId same{};
    if (id.size() != sizeof same.internal) throw std::runtime_error("NCCL: not an id");
    std::memcpy(same.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(ncclCommInitRankConfig(&all_, size, same, rank, &config), "cannot connect");
  }

  void swap(std::span<const Sent> sent, std::span<const Received> received, void* stream) override {
    check(ncclGroupStart(), "cannot begin");
    const ncclResult_t queued = queue(sent, received, static_cast<cudaStream_t>(stream));
    const ncclResult_t ended = ncclGroupEnd();  // in any case: no group is open when ranks give up
    check(queued, "cannot send or receive");
    check(ended, "cannot exchange");
  }

  bool settled() override {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(all_, &state), "cannot ask");
    check(state, "the link of GPUs failed");
    if (state == ncclInProgress) return false;
    if (finished_) check(ncclCommDestroy(std::exchange(all_, nullptr)), "cannot end");
    return true;
  }

  void give_up() noexcept override {
    if (all_) static_cast<void>(ncclCommAbort(std::exchange(all_, nullptr)));
  }
  void finish() override {
    check(ncclCommFinalize(all_), "cannot end");
    finished_ = true;
  }

 private:
  static bool ok(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }
  static void check(ncclResult_t result, const char* what) {
    if (ok(result)) return;
    throw std::runtime_error(std::string("NCCL: ") + what + ": " + ncclGetErrorString(result));
  }

  // The first fault.
  ncclResult_t queue(std::span<const Sent> sent, std::span<const Received> received,
                     cudaStream_t stream) const {
    ncclResult_t result = ncclSuccess;
    for (std::size_t i = 0; i < sent.size() && ok(result); ++i)
      result = ncclSend(sent[i].data, sent[i].floats, ncclFloat32, sent[i].to, all_, stream);
    for (std::size_t i = 0; i < received.size() && ok(result); ++i)
      result = ncclRecv(received[i].data, received[i].floats, ncclFloat32, received[i].from, all_,
                        stream);
    return result;
  }

  ncclComm_t all_ = nullptr;
  bool finished_ = false;
};

}  // namespace
}  // namespace hg

extern "C" hg::DeviceLink* hg_make_device_link() { return new hg::NcclLink; }
