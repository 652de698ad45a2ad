// As rank_sums, where ranks work on GPUs: gradients are exchanged between the devices' memories,
// those of the last layers first, while earlier layers still go backward.
#pragma once

#include "tensor/cuda_peers.h"
#include "train/step/group_plan.h"
#include "train/step/rank_sums.h"

namespace hg {

class DeviceSums : NoCopy {
 public:
  // `plan` has ranks whose devices are linked.
  DeviceSums(const GroupPlan& plan, const std::vector<nn::Parameter>& trained);

  // `held` are the nodes of this rank's lanes, which stay as they are until await() returns. Of
  // this parameter the gradient is whole in all of them, or will not come.
  void whole(std::uint64_t leaf, std::span<const LaneSum> held);
  void all_whole(std::span<const LaneSum> held);
  // Until the sums of all ranks are here.
  void await();

  // Gradients of the whole batch, on every rank: [trained parameter], undefined where no lane has
  // one.
  Tensors sums(const std::vector<HeldNodes>& held) const;

 private:
  struct Bucket {  // consecutive parameters, that are exchanged together
    std::vector<std::size_t> parameters;
    std::vector<std::int64_t> begins;  // of each
    std::int64_t size = 0;             // floats
    std::size_t not_whole = 0;
    Tensor leaving, arrived, sums;  // [own node, size], [node of others, own share], [size]
  };
  struct Part {  // of a node: the elements of this rank's share
    LaneNode lanes;
    float* data;
  };
  struct Place {
    std::size_t bucket, index;
    bool whole = false;
  };

  void add_parameter(std::size_t p, std::int64_t most);
  Share share(const Bucket& bucket, int rank) const;
  std::int64_t own_floats(const Bucket& bucket) const;
  void send(Bucket& bucket, std::span<const LaneSum> held);
  void pack(const Bucket& bucket, const LaneSum& node, float* to) const;
  std::vector<Part> trade_nodes(const Bucket& bucket);
  const float* add_nodes(const Bucket& bucket, std::vector<Part> parts) const;
  void gather_sums(const Bucket& bucket);
  void swap(std::span<const DeviceLink::Sent> sent, std::span<const DeviceLink::Received> received);

  Ranks& ranks_;
  const std::int64_t lanes_;
  const std::vector<nn::Parameter>& trained_;
  std::vector<CachedVector<LaneNode>> nodes_;  // [rank]
  std::int64_t foreign_nodes_ = 0;
  std::vector<Bucket> buckets_;
  IdMap<std::size_t> numbers_;  // of parameters
  std::vector<Place> places_;   // [parameter]
  std::size_t sent_ = 0;        // buckets
  std::uint64_t bytes_ = 0;
};

}  // namespace hg
