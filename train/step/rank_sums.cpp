#include "train/step/rank_sums.h"

#include <algorithm>

#include "tensor/cpu/parallel.h"

namespace hg {
namespace {

constexpr std::int64_t kLine = 16;  // floats; parameters and shares begin at a multiple of them
constexpr std::int64_t kGrain = 16384;

// Where the gradients of parameters stand, one after the other.
class Layout {
 public:
  explicit Layout(const std::vector<nn::Parameter>& trained) {
    for (const nn::Parameter& p : trained) {
      begins_.push_back(size_);
      ends_.push_back(size_ + p.value.numel());
      size_ = (ends_.back() + kLine - 1) / kLine * kLine;
    }
  }
  std::int64_t size() const { return size_; }
  std::int64_t begin(std::size_t parameter) const { return begins_[parameter]; }

  Share of_rank(int rank, int size) const {
    const Share lines = share_of(size_ / kLine, rank, size);
    return {lines.first * kLine, lines.end * kLine};
  }
  // body(parameter, begin, end) for the parts of parameters in [first, end).
  template <class Body>
  void for_parts(const Share& range, const Body& body) const {
    auto p = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), range.first) -
                                      ends_.begin());
    for (; p < begins_.size() && begins_[p] < range.end; ++p)
      body(p, std::max(range.first, begins_[p]), std::min(range.end, ends_[p]));
  }

 private:
  CachedVector<std::int64_t> begins_, ends_;
  std::int64_t size_ = 0;
};

std::int64_t length(const Share& share) { return share.end - share.first; }
std::size_t bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

// A share's elements of every node: those of this rank copied, those of others received.
class Exchange {
 public:
  Exchange(Ranks& ranks, const LaneSums& own, const std::vector<HeldNodes>& held,
           const std::vector<nn::Parameter>& trained)
      : ranks_(ranks),
        own_(own),
        held_(held),
        trained_(trained),
        layout_(trained),
        mine_(share(ranks.rank())) {}

  void trade_nodes();
  void add_nodes(std::int64_t lanes);
  Tensors gather_sums();

 private:
  struct Part {  // of a node
    LaneNode lanes;
    std::vector<char> has;
    float* data;  // of the elements mine_
  };

  Share share(int rank) const { return layout_.of_rank(rank, ranks_.size()); }
  void copy_node(const LaneSum& node, const Share& range, float* to) const;
  void add(Part& left, const Part& right) const;

  Ranks& ranks_;
  const LaneSums& own_;
  const std::vector<HeldNodes>& held_;
  const std::vector<nn::Parameter>& trained_;
  const Layout layout_;
  const Share mine_;
  Tensor arrived_;  // [nodes of all ranks, elements of mine_]
  CachedVector<Part> parts_;
};

void Exchange::copy_node(const LaneSum& node, const Share& range, float* to) const {
  cpu::parallel_for(length(range), kGrain, [&](std::int64_t first, std::int64_t end) {
    layout_.for_parts({range.first + first, range.first + end},
                      [&](std::size_t p, std::int64_t begin, std::int64_t stop) {
                        if (!node.gradients.has(trained_[p].value)) return;
                        const float* const from =
                            node.gradients[trained_[p].value].data<float>() - layout_.begin(p);
                        std::copy(from + begin, from + stop, to + (begin - range.first));
                      });
  });
}

void Exchange::trade_nodes() {
  std::int64_t nodes = 0;
  for (const HeldNodes& of_rank : held_) nodes += std::ssize(of_rank);
  const std::int64_t width = length(mine_), own_nodes = std::ssize(own_.nodes());
  arrived_ = Tensor::empty({std::max<std::int64_t>(1, nodes), std::max<std::int64_t>(1, width)});
  const Tensor leaving = Tensor::empty({std::max<std::int64_t>(1, own_nodes * layout_.size())});
  std::vector<Ranks::Sent> sent;
  std::vector<Ranks::Received> received;
  float *in = arrived_.data<float>(), *out = leaving.data<float>();
  for (int r = 0; r < ranks_.size(); ++r) {
    const HeldNodes& theirs = held_[static_cast<std::size_t>(r)];
    const Share wanted = share(r);
    const bool self = r == ranks_.rank();
    float* to = self ? in : out;
    for (const LaneSum& node : own_.nodes()) {
      copy_node(node, wanted, to);
      to += length(wanted);
    }
    if (!self) {
      sent.push_back({r, out, bytes(own_nodes * length(wanted))});
      received.push_back({r, in, bytes(std::ssize(theirs) * width)});
      out = to;
    }
    for (const HeldNode& node : theirs) {
      parts_.push_back({node, node.has, in});
      in += width;
    }
  }
  ranks_.swap(sent, received, Ranks::Work::exchange);
}

void Exchange::add(Part& left, const Part& right) const {
  cpu::parallel_for(length(mine_), kGrain, [&](std::int64_t first, std::int64_t end) {
    layout_.for_parts({mine_.first + first, mine_.first + end},
                      [&](std::size_t p, std::int64_t begin, std::int64_t stop) {
                        if (!right.has[p]) return;
                        float* const to = left.data - mine_.first;
                        const float* const from = right.data - mine_.first;
                        if (left.has[p])
                          for (std::int64_t i = begin; i < stop; ++i) to[i] += from[i];
                        else
                          std::copy(from + begin, from + stop, to + begin);
                      });
  });
  for (std::size_t p = 0; p < left.has.size(); ++p) left.has[p] |= right.has[p];
  left.lanes.end = right.lanes.end;
}

// As LaneSums, and the two halves of the batch, too: no rank is left to add them as it reads them.
void Exchange::add_nodes(std::int64_t lanes) {
  CachedVector<Part> tree;
  for (Part& part : parts_) {
    tree.push_back(std::move(part));
    while (tree.size() > 1 && are_siblings(tree[tree.size() - 2].lanes, tree.back().lanes, lanes)) {
      const Part right = std::move(tree.back());
      tree.pop_back();
      add(tree.back(), right);
    }
  }
  require(tree.size() == 1 && tree[0].lanes.first == 0 && tree[0].lanes.end == lanes, "ranks",
          "the nodes of all ranks do not make a batch of {} lanes", lanes);
  parts_ = std::move(tree);
}

Tensors Exchange::gather_sums() {
  const Tensor all = Tensor::empty({layout_.size()});
  float* const sums = all.data<float>();
  std::copy_n(parts_[0].data, length(mine_), sums + mine_.first);
  std::vector<Ranks::Sent> sent;
  std::vector<Ranks::Received> received;
  for (int r = 0; r < ranks_.size(); ++r) {
    if (r == ranks_.rank()) continue;
    sent.push_back({r, sums + mine_.first, bytes(length(mine_))});
    received.push_back({r, sums + share(r).first, bytes(length(share(r)))});
  }
  ranks_.swap(sent, received, Ranks::Work::exchange);
  Tensors gradients(trained_.size());
  for (std::size_t p = 0; p < trained_.size(); ++p) {
    if (!parts_[0].has[p]) continue;
    TensorSpec spec = trained_[p].value.spec();
    spec.strides = spec.shape.contiguous_strides();
    spec.offset = layout_.begin(p);
    gradients[p] = all.view(spec);
  }
  return gradients;
}

}  // namespace

HeldNodes nodes_held(const LaneSums& sums, const std::vector<nn::Parameter>& trained) {
  HeldNodes nodes;
  for (const LaneSum& node : sums.nodes()) {
    HeldNode held{node, {}};
    for (const nn::Parameter& p : trained) held.has.push_back(node.gradients.has(p.value));
    nodes.push_back(std::move(held));
  }
  return nodes;
}

void pack(const HeldNodes& nodes, Packer& to) {
  to.value(nodes.size());
  for (const HeldNode& node : nodes) {
    to.value(static_cast<const LaneNode&>(node));
    to.bytes({node.has.data(), node.has.size()});
  }
}

HeldNodes unpack_nodes(Unpacker& from) {
  HeldNodes nodes(from.value<std::size_t>());
  for (HeldNode& node : nodes) {
    static_cast<LaneNode&>(node) = from.value<LaneNode>();
    const std::string_view has = from.bytes();
    node.has.assign(has.begin(), has.end());
  }
  return nodes;
}

Tensors sum_over_ranks(Ranks& ranks, const LaneSums& own, const std::vector<HeldNodes>& held,
                       std::int64_t lanes, const std::vector<nn::Parameter>& trained) {
  Exchange exchange(ranks, own, held, trained);
  exchange.trade_nodes();
  exchange.add_nodes(lanes);
  return exchange.gather_sums();
}

}  // namespace hg
