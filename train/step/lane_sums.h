// Gradients of lanes, added by a balanced binary tree that the number of lanes alone fixes. Whoever
// holds consecutive lanes adds what it can; what is left are nodes of the tree, to be handed on.
#pragma once

#include <functional>

#include "autograd/tape.h"
#include "tensor/base/error.h"

namespace hg {

// A node of the tree: its lanes [first, end).
struct LaneNode {
  std::int64_t first, end;
};
// Whether a batch of so many lanes has a node of these two halves.
bool are_siblings(const LaneNode& left, const LaneNode& right, std::int64_t lanes);

// A node, and what its lanes come to.
struct LaneSum : LaneNode {
  Gradients gradients{};
};

// The nodes that are left of lanes [first, end), added in their order, where another rank holds the
// rest of the batch.
CachedVector<LaneNode> nodes_of(std::int64_t first, std::int64_t end, std::int64_t lanes);

// The sum of nodes that cover a batch of so many lanes, in their order, by the tree of lanes:
// add(left, right) adds the right one's to the left one's. A Part has `lanes`, its node.
template <class Parts, class Add>
typename Parts::value_type fold_tree(Parts parts, std::int64_t lanes, const Add& add) {
  Parts tree;
  for (auto& part : parts) {
    tree.push_back(std::move(part));
    while (tree.size() > 1 && are_siblings(tree[tree.size() - 2].lanes, tree.back().lanes, lanes)) {
      const auto right = std::move(tree.back());
      tree.pop_back();
      add(tree.back(), right);
      tree.back().lanes.end = right.lanes.end;
    }
  }
  require(tree.size() == 1 && tree[0].lanes.first == 0 && tree[0].lanes.end == lanes, "ranks",
          "the nodes of all ranks do not make a batch of {} lanes", lanes);
  return std::move(tree[0]);
}

// The fewest nodes that cover the lanes added so far. Adding lane after lane counts in binary: n
// lanes in a row leave about log2(n) nodes.
class LaneSums {
 public:
  explicit LaneSums(std::int64_t lanes) : lanes_(lanes) {}  // of the whole batch

  // The lane that follows; add_groups(sum) adds the gradients of its groups. Siblings are added,
  // except the two halves of the batch: the optimizer adds those as it reads them.
  void add(std::int64_t lane, const std::function<void(Gradients& sum)>& add_groups);
  void add(LaneSums&& following);

  // While add_groups is at work: of the lane under way this gradient is whole, and joins its
  // siblings' ahead of the others.
  void join(std::uint64_t leaf);
  // How many nodes will be left when that lane is added: the first ones.
  std::size_t left() const;

  const CachedVector<LaneSum>& nodes() const { return nodes_; }

 private:
  void add_siblings();

  std::int64_t lanes_;
  CachedVector<LaneSum> nodes_;
};

}  // namespace hg
