#include "train/step/lane_sums.h"

namespace hg {
namespace {

// Siblings whose sum is not the whole batch's.
bool adds_up(const LaneNode& left, const LaneNode& right, std::int64_t lanes) {
  return !(left.first == 0 && right.end == lanes) && are_siblings(left, right, lanes);
}

}  // namespace

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

std::size_t LaneSums::left() const {
  std::size_t left = nodes_.size();
  LaneNode last = nodes_.back();
  for (; left > 1 && adds_up(nodes_[left - 2], last, lanes_); --left)
    last.first = nodes_[left - 2].first;
  return left;
}

void LaneSums::join(std::uint64_t leaf) {
  const std::size_t left = this->left();
  for (std::size_t i = nodes_.size() - 1; i >= left; --i)
    nodes_[i - 1].gradients.add_one(nodes_[i].gradients, leaf);
}

void LaneSums::add_siblings() {
  const std::size_t left = this->left();
  while (nodes_.size() > left) {
    LaneSum right = std::move(nodes_.back());
    nodes_.pop_back();
    nodes_.back().gradients.add(std::move(right.gradients));
    nodes_.back().end = right.end;
  }
}

CachedVector<LaneNode> nodes_of(std::int64_t first, std::int64_t end, std::int64_t lanes) {
  LaneSums sums(lanes);
  for (std::int64_t lane = first; lane < end; ++lane) sums.add(lane, [](Gradients&) {});
  return {sums.nodes().begin(), sums.nodes().end()};
}

}  // namespace hg
