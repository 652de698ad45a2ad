#include "train/step/device_sums.h"

#include <algorithm>

#include "train/step/owners.h"

namespace hg {
namespace {

// Buckets of an eighth of the model: only the last has no backward work to hide behind. At most 16
// MB, beyond which a network gets no faster.
constexpr std::int64_t kBuckets = 8, kMostFloats = std::int64_t{1} << 22;

cuda::SideStream& side() {
  static cuda::SideStream& stream = *cuda::side_stream().release();  // CUDA may end before main
  return stream;
}

Tensor floats(std::int64_t rows, std::int64_t width) {
  return Tensor::empty({std::max<std::int64_t>(1, rows), std::max<std::int64_t>(1, width)},
                       DType::f32, Device::cuda);
}

}  // namespace

DeviceSums::DeviceSums(const GroupPlan& plan, const std::vector<nn::Parameter>& trained)
    : ranks_(*plan.ranks), lanes_(plan.lanes), trained_(trained), places_(trained.size()) {
  for (int r = 0; r < ranks_.size(); ++r) {
    const Share lanes = plan.lanes_of(r);
    nodes_.push_back(nodes_of(lanes.first, lanes.end, lanes_));
    if (r != ranks_.rank()) foreign_nodes_ += std::ssize(nodes_.back());
  }
  std::int64_t all = 0;
  for (const nn::Parameter& p : trained) all += p.value.numel();
  for (std::size_t p = trained.size(); p-- > 0;)
    add_parameter(p, std::min(kMostFloats, all / kBuckets));
}

void DeviceSums::add_parameter(std::size_t p, std::int64_t most) {
  if (buckets_.empty() || buckets_.back().size >= most) buckets_.emplace_back();
  Bucket& bucket = buckets_.back();
  numbers_.emplace(trained_[p].value.id(), p);
  places_[p] = {buckets_.size() - 1, bucket.parameters.size()};
  bucket.parameters.push_back(p);
  bucket.begins.push_back(bucket.size);
  bucket.size += (trained_[p].value.numel() + kLineFloats - 1) / kLineFloats * kLineFloats;
  ++bucket.not_whole;
}

void DeviceSums::whole(std::uint64_t leaf, std::span<const LaneSum> held) {
  const auto number = numbers_.find(leaf);
  if (number == numbers_.end()) return;
  Place& place = places_[number->second];
  if (std::exchange(place.whole, true)) return;
  --buckets_[place.bucket].not_whole;
  while (sent_ < buckets_.size() && buckets_[sent_].not_whole == 0) send(buckets_[sent_++], held);
}

void DeviceSums::all_whole(std::span<const LaneSum> held) {
  while (sent_ < buckets_.size()) send(buckets_[sent_++], held);
}

// What ops still have to do is not waiting for others.
void DeviceSums::await() {
  side().wait_for_ops();
  ranks_.await_exchange(
      [&] { return side().marks_to_come() + (ranks_.devices()->settled() ? 0 : 1); }, bytes_);
}

Share DeviceSums::share(const Bucket& bucket, int rank) const {
  const Share lines = share_of(bucket.size / kLineFloats, rank, ranks_.size());
  return {lines.first * kLineFloats, lines.end * kLineFloats};
}

std::int64_t DeviceSums::own_floats(const Bucket& bucket) const {
  const Share own = share(bucket, ranks_.rank());
  return own.end - own.first;
}

void DeviceSums::send(Bucket& bucket, std::span<const LaneSum> held) {
  require(held.size() == nodes_[static_cast<std::size_t>(ranks_.rank())].size(), "ranks",
          "{} nodes where lanes make {}", held.size(),
          nodes_[static_cast<std::size_t>(ranks_.rank())].size());
  bucket.leaving = floats(std::ssize(held), bucket.size);
  bucket.arrived = floats(foreign_nodes_, own_floats(bucket));
  bucket.sums = floats(1, bucket.size);
  side().follow_ops();
  float* to = bucket.leaving.data<float>();
  for (const LaneSum& node : held) {
    pack(bucket, node, to);
    to += bucket.size;
  }
  const cuda::FloatPart sum{add_nodes(bucket, trade_nodes(bucket)), own_floats(bucket)};
  side().pack({&sum, 1}, bucket.sums.data<float>() + share(bucket, ranks_.rank()).first);
  gather_sums(bucket);
  side().mark();
}

void DeviceSums::pack(const Bucket& bucket, const LaneSum& node, float* to) const {
  std::vector<cuda::FloatPart> parts;
  for (std::size_t k = 0; k < bucket.parameters.size(); ++k) {
    const Tensor& p = trained_[bucket.parameters[k]].value;
    const std::int64_t end = k + 1 < bucket.begins.size() ? bucket.begins[k + 1] : bucket.size;
    const std::int64_t rest = end - bucket.begins[k] - p.numel();
    parts.push_back({node.gradients.has(p) ? node.gradients[p].data<float>() : nullptr, p.numel()});
    if (rest > 0) parts.push_back({nullptr, rest});
  }
  side().pack(parts, to);
}

// Of each node, all ranks get their shares.
std::vector<DeviceSums::Part> DeviceSums::trade_nodes(const Bucket& bucket) {
  std::vector<Part> parts;
  std::vector<DeviceLink::Sent> sent;
  std::vector<DeviceLink::Received> received;
  const std::int64_t own = own_floats(bucket);
  float* const leaving = bucket.leaving.data<float>();
  float* in = bucket.arrived.data<float>();
  for (int r = 0; r < ranks_.size(); ++r) {
    const Share theirs = share(bucket, r);
    const auto row = [&](std::size_t k) {
      return leaving + static_cast<std::int64_t>(k) * bucket.size + theirs.first;
    };
    const CachedVector<LaneNode>& nodes = nodes_[static_cast<std::size_t>(r)];
    if (r == ranks_.rank()) {
      for (std::size_t k = 0; k < nodes.size(); ++k) parts.push_back({nodes[k], row(k)});
      continue;
    }
    for (std::size_t k = 0; k < nodes_[static_cast<std::size_t>(ranks_.rank())].size(); ++k)
      sent.push_back({r, row(k), static_cast<std::size_t>(theirs.end - theirs.first)});
    for (const LaneNode& node : nodes) {
      received.push_back({r, in, static_cast<std::size_t>(own)});
      parts.push_back({node, in});
      in += own;
    }
  }
  swap(sent, received);
  return parts;
}

const float* DeviceSums::add_nodes(const Bucket& bucket, std::vector<Part> parts) const {
  return fold_tree(std::move(parts), lanes_,
                   [&](const Part& left, const Part& right) {
                     side().add(left.data, right.data, left.data, own_floats(bucket));
                   })
      .data;
}

void DeviceSums::gather_sums(const Bucket& bucket) {
  std::vector<DeviceLink::Sent> sent;
  std::vector<DeviceLink::Received> received;
  float* const sums = bucket.sums.data<float>();
  const Share own = share(bucket, ranks_.rank());
  for (int r = 0; r < ranks_.size(); ++r) {
    if (r == ranks_.rank()) continue;
    const Share theirs = share(bucket, r);
    sent.push_back({r, sums + own.first, static_cast<std::size_t>(own.end - own.first)});
    received.push_back(
        {r, sums + theirs.first, static_cast<std::size_t>(theirs.end - theirs.first)});
  }
  swap(sent, received);
}

void DeviceSums::swap(std::span<const DeviceLink::Sent> sent,
                      std::span<const DeviceLink::Received> received) {
  DeviceLink& link = *ranks_.devices();
  ranks_.with_devices([&] { link.swap(sent, received, side().handle()); });
  for (const DeviceLink::Sent& s : sent) bytes_ += s.floats * sizeof(float);
  // The first time, connections are made.
  ranks_.await_devices([&] { return link.settled() ? 0 : 1; });
}

Tensors DeviceSums::sums(const std::vector<HeldNodes>& held) const {
  Tensors gradients(trained_.size());
  for (std::size_t p = 0; p < trained_.size(); ++p) {
    const bool any = std::ranges::any_of(held, [&](const HeldNodes& of_rank) {
      return std::ranges::any_of(of_rank, [&](const HeldNode& node) { return node.has[p] != 0; });
    });
    if (!any) continue;
    const Bucket& bucket = buckets_[places_[p].bucket];
    gradients[p] = gradient_in(bucket.sums, bucket.begins[places_[p].index], trained_[p]);
  }
  return gradients;
}

}  // namespace hg
