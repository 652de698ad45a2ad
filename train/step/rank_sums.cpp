#include "train/step/rank_sums.h"

#include <algorithm>

#include "train/step/owners.h"

namespace hg {
namespace {

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
        layout_(trained, ranks.size()),
        mine_(share(ranks.rank())) {}

  void trade_nodes();
  void add_nodes(std::int64_t lanes);
  Tensors sums() const;

 private:
  struct Part {  // of a node
    LaneNode lanes;
    std::vector<char> has;
    float* data;  // of the elements mine_
  };

  Share share(int rank) const { return layout_.of_rank(rank); }
  void copy_node(const LaneSum& node, const Share& range, float* to) const;
  void add(Part& left, const Part& right) const;

  Ranks& ranks_;
  const LaneSums& own_;
  const std::vector<HeldNodes>& held_;
  const std::vector<nn::Parameter>& trained_;
  const OwnedLayout layout_;
  const Share mine_;
  Tensor arrived_;  // [nodes of all ranks, elements of mine_]
  CachedVector<Part> parts_;
  Part sum_{};  // of all
};

void Exchange::copy_node(const LaneSum& node, const Share& range, float* to) const {
  layout_.for_parts(range, [&](std::size_t p, std::int64_t begin, std::int64_t end) {
    if (!node.gradients.has(trained_[p].value)) return;
    const float* const from = node.gradients[trained_[p].value].data<float>() - layout_.begin(p);
    std::copy(from + begin, from + end, to + (begin - range.first));
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
  layout_.for_parts(mine_, [&](std::size_t p, std::int64_t begin, std::int64_t end) {
    if (!right.has[p]) return;
    float* const to = left.data - mine_.first;
    const float* const from = right.data - mine_.first;
    if (left.has[p])
      for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
    else
      std::copy(from + begin, from + end, to + begin);
  });
  for (std::size_t p = 0; p < left.has.size(); ++p) left.has[p] |= right.has[p];
}

// As LaneSums, and the two halves of the batch, too: no rank is left to add them as it reads them.
void Exchange::add_nodes(std::int64_t lanes) {
  sum_ =
      fold_tree(std::move(parts_), lanes, [&](Part& left, const Part& right) { add(left, right); });
}

Tensors Exchange::sums() const {
  Tensors gradients(trained_.size());
  for (std::size_t p = 0; p < trained_.size(); ++p) {
    if (!sum_.has[p] || !layout_.owns(ranks_.rank(), p)) continue;
    gradients[p] = gradient_in(
        arrived_, sum_.data - arrived_.data<float>() + layout_.begin(p) - mine_.first, trained_[p]);
  }
  return gradients;
}

}  // namespace

Tensor gradient_in(const Tensor& floats, std::int64_t begin, const nn::Parameter& of) {
  TensorSpec spec = of.value.spec();
  spec.strides = spec.shape.contiguous_strides();
  spec.offset = begin;
  return floats.view(spec);
}

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
  return exchange.sums();
}

}  // namespace hg
