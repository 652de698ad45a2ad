#include "train/step/lane_sums.h"

namespace hg {

// A node has 2^h lanes and begins at a multiple of them; the last ones of the batch may be cut off.
bool LaneSums::siblings(const LaneSum& left, const LaneSum& right) const {
  const std::int64_t size = left.end - left.first;
  const bool whole = right.end == lanes_ || right.end - right.first == size;
  const bool root = left.first == 0 && right.end == lanes_;
  return left.first % (2 * size) == 0 && right.first == left.end && whole && !root;
}

void LaneSums::add(std::int64_t lane, const std::function<void(Gradients& sum)>& add_groups) {
  nodes_.push_back({lane, lane + 1});
  add_groups(nodes_.back().gradients);
  add_siblings();
}

void LaneSums::add(LaneSums&& following) {
  for (LaneSum& node : following.nodes_) {
    nodes_.push_back(std::move(node));
    add_siblings();
  }
}

void LaneSums::add_siblings() {
  while (nodes_.size() > 1 && siblings(nodes_[nodes_.size() - 2], nodes_.back())) {
    LaneSum right = std::move(nodes_.back());
    nodes_.pop_back();
    nodes_.back().gradients.add(std::move(right.gradients));
    nodes_.back().end = right.end;
  }
}

}  // namespace hg
