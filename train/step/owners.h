// Which rank updates a parameter and keeps its moments, where ranks share a model (ZeRO, stage 1):
// whole parameters, so that an update needs no other rank, of about as many elements each.
#pragma once

#include "nn/layers/parameter.h"
#include "train/ranks/ranks.h"

namespace hg {

// Ranks that share the parameters of a model on this device; none: each updates all of them.
Ranks* owning_ranks(Device device);

// [parameter]; the same on every rank.
CachedVector<int> owners_of(const std::vector<nn::Parameter>& trained, int ranks);

inline constexpr std::int64_t kLineFloats = 16;  // parameters and shares begin at a multiple

// Where parameters stand, one after the other, in a message: those of rank 0, of rank 1, ...
class OwnedLayout {
 public:
  OwnedLayout(const std::vector<nn::Parameter>& trained, int ranks);

  std::int64_t size() const { return size_; }  // elements
  std::int64_t begin(std::size_t parameter) const { return begins_[parameter]; }
  Share of_rank(int rank) const { return shares_[static_cast<std::size_t>(rank)]; }
  bool owns(int rank, std::size_t parameter) const { return owners_[parameter] == rank; }
  // body(parameter, begin, end) for the parts of parameters in [first, end), on all threads.
  void for_parts(const Share& range,
                 const std::function<void(std::size_t parameter, std::int64_t begin,
                                          std::int64_t end)>& body) const;

 private:
  const CachedVector<int> owners_;
  CachedVector<std::size_t> order_;           // of parameters
  CachedVector<std::int64_t> begins_, ends_;  // [parameter], [place in the order]
  CachedVector<Share> shares_;
  std::int64_t size_ = 0;
};

// Every rank gets the values of all parameters from those who own them.
void gather_values(Ranks& ranks, const std::vector<nn::Parameter>& trained);

}  // namespace hg
