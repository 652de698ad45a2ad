// How floats get from GPU to GPU, each rank having one. The library of their maker (NCCL)
// implements it in a module of its own, which is loaded where ranks train on GPUs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace hg {

class Ranks;

// Used by one thread. Throws std::runtime_error where the library fails, or finds that another rank
// has.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;  // what is under way is given up

  virtual std::string id() = 0;  // a name of these ranks' link: one makes it, all connect by it
  virtual void connect(const std::string& id, int rank, int size) = 0;

  // Of memory on this rank's device.
  struct Sent {
    int to;
    const float* data;
    std::size_t floats;
  };
  struct Received {
    int from;
    float* data;
    std::size_t floats;
  };
  // Queues all of these at once on a stream of the device. Between two ranks, floats arrive in the
  // order in which they were queued; both sides name their number.
  virtual void swap(std::span<const Sent> sent, std::span<const Received> received,
                    void* stream) = 0;
  // What was called before has taken effect: the ranks are connected, the stream has its work.
  virtual bool settled() = 0;

  virtual void give_up() noexcept = 0;  // so that the device does not wait for others
  virtual void finish() = 0;            // all ranks end in order; settled() tells when they have
};

inline constexpr const char* kMakeDeviceLink = "hg_make_device_link";  // in the module
using MakeDeviceLink = DeviceLink* (*)();

// Links the ranks' GPUs, by the one that this thread uses; waits for all of them. Once is enough:
// ranks that have several runs keep their link.
void link_gpus(Ranks& ranks);

}  // namespace hg
