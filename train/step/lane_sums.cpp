#include "train/step/lane_sums.h"

namespace hg {

// A node has 2^h lanes and begins at a multiple of them; the last ones of the batch may be cut off.
bool are_siblings(const LaneNode& left, const LaneNode& right, std::int64_t lanes) {
  const std::int64_t size = left.end - left.first;
  const bool whole = right.end == lanes || right.end - right.first == size;
  return left.first % (2 * size) == 0 && right.first == left.end && whole;
}

void LaneSums::add(std::int64_t lane, const std::function<void(Gradients& sum)>& add_groups) {
  nodes_.push_back({{lane, lane + 1}, {}});
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
  while (nodes_.size() > 1) {
    const LaneSum& left = nodes_[nodes_.size() - 2];
    const bool root = left.first == 0 && nodes_.back().end == lanes_;
    if (root || !are_siblings(left, nodes_.back(), lanes_)) return;
    LaneSum right = std::move(nodes_.back());
    nodes_.pop_back();
    nodes_.back().gradients.add(std::move(right.gradients));
    nodes_.back().end = right.end;
  }
}

}  // namespace hg
