#include "train/step/owners.h"

#include <algorithm>
#include <numeric>

#include "tensor/cpu/parallel.h"

namespace hg {
namespace {

constexpr std::int64_t kGrain = 16384;

template <class Before>
CachedVector<std::size_t> sorted_places(std::size_t count, const Before& before) {
  CachedVector<std::size_t> places(count);
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), before);
  return places;
}

}  // namespace

Ranks* owning_ranks(Device device) {
  return device != Device::cpu || ranks().alone() ? nullptr : &ranks();
}

// The largest first, each to the rank that has least.
CachedVector<int> owners_of(const std::vector<nn::Parameter>& trained, int ranks) {
  CachedVector<int> owners(trained.size());
  CachedVector<std::int64_t> elements(static_cast<std::size_t>(ranks));
  for (const std::size_t p : sorted_places(trained.size(), [&](std::size_t a, std::size_t b) {
         return trained[a].value.numel() > trained[b].value.numel();
       })) {
    const auto least = std::min_element(elements.begin(), elements.end());
    owners[p] = static_cast<int>(least - elements.begin());
    *least += trained[p].value.numel();
  }
  return owners;
}

OwnedLayout::OwnedLayout(const std::vector<nn::Parameter>& trained, int ranks)
    : owners_(owners_of(trained, ranks)),
      order_(sorted_places(trained.size(),
                           [&](std::size_t a, std::size_t b) { return owners_[a] < owners_[b]; })),
      begins_(trained.size()) {
  auto next = order_.begin();
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t first = size_;
    for (; next != order_.end() && owners_[*next] == r; ++next) {
      begins_[*next] = size_;
      ends_.push_back(size_ + trained[*next].value.numel());
      size_ = (ends_.back() + kLineFloats - 1) / kLineFloats * kLineFloats;
    }
    shares_.push_back({first, size_});
  }
}

void OwnedLayout::for_parts(
    const Share& range,
    const std::function<void(std::size_t, std::int64_t, std::int64_t)>& body) const {
  cpu::parallel_for(range.end - range.first, kGrain, [&](std::int64_t first, std::int64_t end) {
    first += range.first, end += range.first;
    auto place = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) -
                                          ends_.begin());
    for (; place < order_.size() && begins_[order_[place]] < end; ++place)
      body(order_[place], std::max(first, begins_[order_[place]]), std::min(end, ends_[place]));
  });
}

void gather_values(Ranks& ranks, const std::vector<nn::Parameter>& trained) {
  const OwnedLayout layout(trained, ranks.size());
  const Tensor all = Tensor::empty({std::max<std::int64_t>(1, layout.size())});
  float* const values = all.data<float>();
  const auto value = [&](std::size_t p) {
    return trained[p].value.data<float>() - layout.begin(p);
  };
  const Share mine = layout.of_rank(ranks.rank());
  const auto bytes = [](const Share& share) {
    return static_cast<std::size_t>(share.end - share.first) * sizeof(float);
  };
  layout.for_parts(mine, [&](std::size_t p, std::int64_t begin, std::int64_t end) {
    std::copy(value(p) + begin, value(p) + end, values + begin);
  });
  std::vector<Ranks::Sent> sent;
  std::vector<Ranks::Received> received;
  for (int r = 0; r < ranks.size(); ++r) {
    if (r == ranks.rank()) continue;
    const Share theirs = layout.of_rank(r);
    sent.push_back({r, values + mine.first, bytes(mine)});
    received.push_back({r, values + theirs.first, bytes(theirs)});
  }
  ranks.swap(sent, received, Ranks::Work::exchange);
  layout.for_parts({0, layout.size()}, [&](std::size_t p, std::int64_t begin, std::int64_t end) {
    if (!layout.owns(ranks.rank(), p)) std::copy(values + begin, values + end, value(p) + begin);
  });
}

}  // namespace hg
