#include "tensor/ops/group_attention.h"

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/scratch.h"
#include "tensor/ops/attention/group_blocks.h"
#include "tensor/ops/attention/group_operands.h"
#include "tensor/random.h"

namespace hg::ops {
namespace {

constexpr std::int32_t kEverywhere = Grouping::kEverywhere;

using Block = cpu::GroupBlock;
using cpu::for_blocks, cpu::LargestBlocks;

// One (image, head).
struct Head {
  std::int64_t b, h;
  const Grouping& g;
};

template <class T>
struct Rows {
  const GroupAttentionOptions& options;
  GroupSizes s;

  // to[r] = the rows of these tokens
  void gather(const TokenHeads<T>& from, const Head& head, const std::int32_t* tokens,
              std::int64_t count, T* to) const {
    for (std::int64_t r = 0; r < count; ++r)
      std::copy_n(from.at(head.b, head.h) + tokens[r] * from.row, s.d, to + r * s.d);
  }
  void add(const T* from, const TokenHeads<T>& to, const Head& head, const std::int32_t* tokens,
           std::int64_t count) const {
    for (std::int64_t r = 0; r < count; ++r)
      cpu::add_row<T>(s.d, from + r * s.d, to.at(head.b, head.h) + tokens[r] * to.row);
  }
  void clear(const TokenHeads<T>& rows, const Head& head, std::int64_t count) const {
    for (std::int64_t r = 0; r < count; ++r)
      std::fill_n(rows.at(head.b, head.h) + r * rows.row, s.d, T{0});
  }
  // Scores of masked pairs of query i (Grouping::masked) become `value`.
  void mask(const Grouping& g, int i, int round, const Block& block, T value, T* scores) const {
    const auto count = static_cast<std::int64_t>(block.keys.size());
    const auto where = [&](const std::int32_t* numbers, std::int32_t number) {
      for (std::int64_t c = 0; c < count; ++c) scores[c] = numbers[c] == number ? value : scores[c];
    };
    if (g.left_out[i] >= 0) where(block.keys.data(), g.left_out[i]);
    for (int before = 0; before < round; ++before)
      where(block.groups.data() + before * count, g.group_of_query(before, i));
  }
  // 1 / (1 - p) where the weight of pair (i, j) is kept, 0 where it is dropped.
  T kept_weight(const Head& head, std::int64_t i, std::int64_t j) const {
    const auto pair = static_cast<std::uint64_t>(((head.b * s.heads + head.h) * s.n + i) * s.m + j);
    const std::uint64_t draw = options.first + pair;
    const double u = uniform_from_bits(draw_block(options.key, draw / 4)[draw % 4]);
    return static_cast<T>(u < options.dropout ? 0 : 1 / (1 - options.dropout));
  }
  void drop(const Head& head, std::int64_t i, const Block& block, T* weights) const {
    if (options.dropout == 0) return;
    for (std::size_t c = 0; c < block.keys.size(); ++c)
      weights[c] *= kept_weight(head, i, block.keys[c]);
  }
};

template <class T>
struct Forward : Rows<T> {
  TokenHeads<T> q, k, v, o;
  T* lse;
  using Rows<T>::s;

  struct Work {
    cpu::Scratch<T> queries, keys, packed_keys, packed_values, scores, parts, tops, sums;
    Work(const GroupSizes& s, const LargestBlocks<T>& most)
        : queries(most.rows * s.d),
          keys(most.keys * s.d),
          packed_keys(cpu::packed_size<T>(most.keys, s.d)),
          packed_values(cpu::packed_size<T>(s.d, most.keys)),
          scores(most.scores),
          parts(most.rows * s.d),
          tops(s.n),
          sums(s.n) {}
  };

  void operator()(const Head& head) const {
    const Work work(s, LargestBlocks<T>(head.g));
    this->clear(o, head, s.n);
    std::fill_n(static_cast<T*>(work.tops), s.n, -std::numeric_limits<T>::infinity());
    std::fill_n(static_cast<T*>(work.sums), s.n, T{0});
    for_blocks(head.g, [&](int round, const Block& block) {
      const auto keys = static_cast<std::int64_t>(block.keys.size());
      this->gather(k, head, block.keys.data(), keys, work.keys);
      cpu::pack_b<T>(keys, s.d, {work.keys, 1, s.d}, work.packed_keys);
      this->gather(v, head, block.keys.data(), keys, work.keys);
      cpu::pack_b<T>(s.d, keys, {work.keys, s.d, 1}, work.packed_values);
      for (std::int64_t i = 0; i < block.queries.count; i += block.rows())
        some_rows(head, round, block, i, std::min(block.rows(), block.queries.count - i), work);
    });
    for (std::int64_t i = 0; i < s.n; ++i) {
      T* const row = o.at(head.b, head.h) + i * o.row;
      cpu::scale_row<T>(s.d, T{1} / work.sums[i], row, row);
      lse[(head.b * s.heads + head.h) * s.n + i] = work.tops[i] + std::log(work.sums[i]);
    }
  }

  // Queries [first, first + rows) of the block.
  void some_rows(const Head& head, int round, const Block& block, std::int64_t first,
                 std::int64_t rows, const Work& work) const {
    const auto keys = static_cast<std::int64_t>(block.keys.size());
    const std::int64_t ld = cpu::padded_size<T>(keys);
    const std::int32_t* const tokens = block.queries.tokens + first;
    this->gather(q, head, tokens, rows, work.queries);
    cpu::gemm_packed<T>(rows, ld, s.d, {work.queries, s.d, 1}, work.packed_keys, work.scores, ld);
    for (std::int64_t r = 0; r < rows; ++r)
      exponentiate(head, round, block, tokens[r], work.scores + r * ld, work);
    cpu::gemm_packed<T>(rows, s.d, keys, {work.scores, ld, 1}, work.packed_values, work.parts, s.d);
    this->add(work.parts, o, head, tokens, rows);
  }

  // Raw scores of query i become exp(scale s - top), with `top` the row's largest so far; what the
  // row has from before is brought to the same top.
  void exponentiate(const Head& head, int round, const Block& block, std::int32_t i, T* scores,
                    const Work& work) const {
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    const auto keys = static_cast<std::int64_t>(block.keys.size());
    const T scale = static_cast<T>(s.scale());
    this->mask(head.g, i, round, block, kNone, scores);
    const T top = std::max(work.tops[i], scale * cpu::row_max_of_numbers(keys, scores));
    if (top == kNone) return static_cast<void>(std::fill_n(scores, keys, T{0}));
    const T factor = std::exp(work.tops[i] - top);
    if (factor > 0 && factor != 1) {
      T* const row = o.at(head.b, head.h) + i * o.row;
      cpu::scale_row<T>(s.d, factor, row, row);
    }
    const T sum = cpu::exp_sum(keys, scores, scale, top, scores);
    work.sums[i] = factor * work.sums[i] + sum;
    work.tops[i] = top;
    this->drop(head, i, block, scores);
  }
};

template <class T>
struct Backward : Rows<T> {
  TokenHeads<T> q, k, v, o, grad_o, dq, dk, dv;
  const T* lse;
  using Rows<T>::s;

  struct Work {
    cpu::Scratch<T> queries, grads, keys, packed_keys, keys_t, values_t, p, ds, parts, dk, dv,
        packed, deltas;
    Work(const GroupSizes& s, const LargestBlocks<T>& most)
        : queries(most.rows * s.d),
          grads(most.rows * s.d),
          keys(most.keys * s.d),
          packed_keys(cpu::packed_size<T>(s.d, most.keys)),
          keys_t(cpu::packed_size<T>(most.keys, s.d)),
          values_t(cpu::packed_size<T>(most.keys, s.d)),
          p(most.scores),
          ds(most.scores),
          parts(most.rows * s.d),
          dk(most.keys * s.d),
          dv(most.keys * s.d),
          packed(cpu::gemm_scratch<T>(s.d, most.rows)),
          deltas(s.n) {}
  };

  void operator()(const Head& head) const {
    const Work work(s, LargestBlocks<T>(head.g));
    this->clear(dq, head, s.n), this->clear(dk, head, s.m), this->clear(dv, head, s.m);
    for (std::int64_t i = 0; i < s.n; ++i)
      work.deltas[i] = cpu::dot<T>(s.d, grad_o.at(head.b, head.h) + i * grad_o.row,
                                   o.at(head.b, head.h) + i * o.row);
    for_blocks(head.g, [&](int round, const Block& block) {
      const auto keys = static_cast<std::int64_t>(block.keys.size());
      this->gather(v, head, block.keys.data(), keys, work.keys);
      cpu::pack_b<T>(keys, s.d, {work.keys, 1, s.d}, work.values_t);
      this->gather(k, head, block.keys.data(), keys, work.keys);
      cpu::pack_b<T>(keys, s.d, {work.keys, 1, s.d}, work.keys_t);
      cpu::pack_b<T>(s.d, keys, {work.keys, s.d, 1}, work.packed_keys);
      for (std::int64_t i = 0; i < block.queries.count; i += block.rows())
        some_rows(head, round, block, i, std::min(block.rows(), block.queries.count - i), work);
      this->add(work.dk, dk, head, block.keys.data(), keys);
      this->add(work.dv, dv, head, block.keys.data(), keys);
    });
  }

  void some_rows(const Head& head, int round, const Block& block, std::int64_t first,
                 std::int64_t rows, const Work& work) const {
    const auto keys = static_cast<std::int64_t>(block.keys.size());
    const std::int64_t ld = cpu::padded_size<T>(keys);
    const std::int32_t* const tokens = block.queries.tokens + first;
    this->gather(q, head, tokens, rows, work.queries);
    this->gather(grad_o, head, tokens, rows, work.grads);
    const cpu::Matrix<T> queries{work.queries, s.d, 1}, grads{work.grads, s.d, 1};
    cpu::gemm_packed<T>(rows, ld, s.d, queries, work.keys_t, work.p, ld);
    cpu::gemm_packed<T>(rows, ld, s.d, grads, work.values_t, work.ds, ld);
    for (std::int64_t r = 0; r < rows; ++r)
      score_row(head, round, block, tokens[r], work.deltas[tokens[r]], work.p + r * ld,
                work.ds + r * ld);
    const cpu::Matrix<T> p_t{work.p, 1, ld}, ds{work.ds, ld, 1};
    const cpu::Epilogue<T> add{.accumulate = first > 0};
    cpu::gemm_serial<T>(keys, s.d, rows, p_t, grads, work.dv, s.d, work.packed, add);
    cpu::gemm_serial<T>(keys, s.d, rows, ds.transposed(), queries, work.dk, s.d, work.packed, add);
    cpu::gemm_packed<T>(rows, s.d, keys, ds, work.packed_keys, work.parts, s.d);
    this->add(work.parts, dq, head, tokens, rows);
  }

  // p: raw scores -> weights as they were used; ds: do v^T -> p (do v^T - do.o) scale
  void score_row(const Head& head, int round, const Block& block, std::int32_t i, T delta, T* p,
                 T* ds) const {
    using P = cpu::Packet<T>;
    const auto keys = static_cast<std::int64_t>(block.keys.size());
    const T factor = static_cast<T>(s.scale());
    const P scale = ei::pset1<P>(factor), shift = ei::pset1<P>(delta);
    const cpu::ScaledExp<T> weight(factor, lse[(head.b * s.heads + head.h) * s.n + i]);
    cpu::map([&](auto x) { return weight(x); }, keys, p, p);
    this->mask(head.g, i, round, block, T{0}, p);
    this->drop(head, i, block, ds);
    cpu::map([&](auto w, auto g) { return ei::pmul(ei::pmul(ei::psub(g, shift), w), scale); }, keys,
             ds, p, ds);
    this->drop(head, i, block, p);
  }
};

void check_operands(const Op& op, const GroupAttentionOptions& o, In in) {
  expect_floats(op, in, o.inputs());
  expect_rank(op, in, 0, 3);
  const std::int64_t parts = o.heads * (o.apart ? 1 : 3);
  require(o.heads > 0 && in[0].dim(2) > 0 && in[0].dim(2) % parts == 0, op.name(),
          "{} does not hold {} heads", in[0], o.heads);
  require(o.dropout >= 0 && o.dropout < 1, op.name(), "dropout {} is not in [0, 1)", o.dropout);
  if (o.apart) {
    expect_rank(op, in, 1, 3);
    expect_shape(op, in, 1, {in[0].dim(0), in[1].dim(1), in[0].dim(2)});
    expect_shape(op, in, 2, in[1].shape());
  }
  o.groups.check(op, in[0], in[o.apart ? 1 : 0], o.heads);
}

Shape output_shape(const GroupAttentionOptions& o, const Tensor& q) {
  return {q.dim(0), q.dim(1), q.dim(2) / (o.apart ? 1 : 3)};
}

// What cost() counts with.
struct Counts {
  std::uint64_t pairs, rows, d;
  Counts(const GroupAttentionOptions& o, In in) {
    const GroupSizes s(o.heads, o.apart, in);
    pairs = static_cast<std::uint64_t>(o.groups.pairs(s.batch, s.heads));
    rows = static_cast<std::uint64_t>(s.rows()), d = static_cast<std::uint64_t>(s.d);
  }
  std::uint64_t product() const { return 2 * pairs * d; }
};

std::uint64_t bytes_of_v(const GroupAttentionOptions& o, In in) {
  return o.apart ? in[2].bytes() : in[0].bytes() / 3;
}

// A pattern without structure; token 0 is outside of groups. Queries are the first keys.
std::shared_ptr<const TokenGroups> sample_groups(std::int64_t heads, std::int64_t rounds,
                                                 std::int64_t groups, bool self, std::int64_t n,
                                                 std::int64_t m) {
  CachedVector<TokenGroups::Labels> labels(static_cast<std::size_t>(heads));
  CachedVector<std::int32_t> place;
  for (std::int64_t i = 0; i < n; ++i) place.push_back(static_cast<std::int32_t>(i));
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t r = 0; r < rounds; ++r)
      for (std::int64_t j = 0; j < std::max(n, m); ++j) {
        const std::int64_t group = (j * (3 + 2 * r) + j / 4 + h) % groups;
        const std::int32_t label = j == 0 ? kEverywhere : static_cast<std::int32_t>(group);
        if (j < n) labels[h].queries.push_back(label);
        if (j < m) labels[h].keys.push_back(label);
      }
  return std::make_shared<const TokenGroups>(rounds, place, self, labels);
}

struct GroupSample {
  GroupAttentionOptions options;
  std::int64_t batch, n, m, d;
};
std::vector<GroupSample> group_samples() {
  constexpr std::uint64_t kKey = 0x0123456789abcdef;
  const auto of = [](std::int64_t heads, std::int64_t rounds, std::int64_t groups, bool self,
                     std::int64_t n) { return sample_groups(heads, rounds, groups, self, n, n); };
  return {{{{of(1, 1, 1, false, 1)}, 1}, 1, 1, 1, 1},
          {{{of(1, 1, 3, true, 17)}, 3}, 2, 17, 17, 5},
          {{{of(2, 1, 4, true, 197)}, 2}, 1, 197, 197, 3},
          {{{of(2, 2, 3, false, 31)}, 2}, 1, 31, 31, 20},
          {{{of(1, 3, 4, false, 19), of(1, 3, 5, false, 19)}, 1}, 2, 19, 19, 4},
          {{{sample_groups(2, 2, 4, false, 3, 23)}, 2, true}, 2, 3, 23, 8},
          {{{of(1, 2, 2, false, 12)}, 2, false, 0.3, kKey, 5}, 2, 12, 12, 3},
          {{{of(1, 1, 1, true, 9)}, 1}, 1, 9, 9, 130},
          {{{of(1, 1, 2, true, 450)}, 1}, 1, 450, 450, 3},  // several blocks of queries
          {{{of(1, 1, 2, true, 4)}, 2}, 0, 4, 4, 3}};
}

std::vector<SampleInput> sample_operands(const GroupSample& s) {
  using S = SampleInput;
  const std::int64_t width = s.options.heads * s.d;
  if (!s.options.apart) return {S::uniform({s.batch, s.n, 3 * width}, -2, 2)};
  const Shape keys{s.batch, s.m, width};
  return {S::uniform({s.batch, s.n, width}, -2, 2), S::uniform(keys, -2, 2), S::uniform(keys)};
}

template <class T>
void for_heads(const GroupAttentionOptions& o, const GroupSizes& s, const T& kernel) {
  cpu::parallel_each(s.batch * s.heads, 1, [&](std::int64_t index) {
    const std::int64_t b = index / s.heads, h = index % s.heads;
    const Grouping grouping = o.groups.of_image(b).of_head(h);
    kernel(Head{b, h, grouping});
  });
}

}  // namespace

TensorSpecs GroupAttention::infer(In in) const {
  check_operands(*this, options, in);
  const GroupSizes s(options.heads, options.apart, in);
  return {in[0].spec(output_shape(options, in[0])), in[0].spec({s.batch, s.heads, s.n})};
}

// scale 1, softmax 5 a pair, dropout 1; lists are read once
CostParts GroupAttention::cost(In in, In out) const {
  const Counts c(options, in);
  const std::uint64_t v = bytes_of_v(options, in);
  const std::uint64_t lists = in[0].dim(0) == 0 ? 0 : options.groups.bytes();
  return {{"qk", {c.product(), c.pairs, bytes_of(in) - v + lists, 0}},
          {"softmax", {0, (options.dropout > 0 ? 6 : 5) * c.pairs, 0, out[1].bytes()}},
          {"av", {c.product(), 0, v, out[0].bytes()}}};
}

void GroupAttention::cpu(In in, Out out) const {
  const GroupAttentionOptions& o = options;
  const GroupSizes s(o.heads, o.apart, in);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const auto input = [&](int which) { return group_operand<T>(o.heads, o.apart, in, which); };
    for_heads(o, s,
              Forward<T>{{o, s},
                         input(0),
                         input(1),
                         input(2),
                         token_heads<T>(out[0], o.heads),
                         out[1].data<T>()});
  });
}

Tensors GroupAttention::grad(const GradArgs& args) const {
  return run(GroupAttentionBackward(options),
             joined({args.grad_out[0], args.out[0], args.out[1]}, args.in));
}

Samples GroupAttention::samples() {
  Samples all;
  for (const GroupSample& s : group_samples())
    all.push_back(sample(GroupAttention(s.options), sample_operands(s), 5e-6));
  return all;
}

TensorSpecs GroupAttentionBackward::infer(In in) const {
  require(in.size() == static_cast<std::size_t>(3 + options.inputs()), name(),
          "expected {} inputs, got {}", 3 + options.inputs(), in.size());
  expect_float(*this, in);
  const In operands = in.subspan(3);
  check_operands(*this, options, operands);
  const GroupSizes s(options.heads, options.apart, operands);
  expect_shape(*this, in, 0, output_shape(options, operands[0]));
  expect_shape(*this, in, 1, in[0].shape());
  expect_shape(*this, in, 2, {s.batch, s.heads, s.n});
  TensorSpecs specs;
  for (const Tensor& t : operands) specs.push_back(t.spec());
  return specs;
}

// qk: scores again, dq, dk; softmax: do.o 2 an element, exp(scale s - lse) 3, ds 3, dropout 2; av:
// do v^T, dv
CostParts GroupAttentionBackward::cost(In in, In out) const {
  const In operands = in.subspan(3);
  const Counts c(options, operands);
  const std::uint64_t v = bytes_of_v(options, operands);
  const std::uint64_t lists = in[0].dim(0) == 0 ? 0 : options.groups.bytes();
  const std::uint64_t a_pair = options.dropout > 0 ? 8 : 6;
  return {{"qk", {3 * c.product(), 0, bytes_of(operands) - v + lists, bytes_of(out) - v}},
          {"softmax", {0, a_pair * c.pairs + 2 * c.rows * c.d, bytes_of(in.first(3)), 0}},
          {"av", {2 * c.product(), 0, v, v}}};
}

void GroupAttentionBackward::cpu(In in, Out out) const {
  const GroupAttentionOptions& o = options;
  const In operands = in.subspan(3);
  const GroupSizes s(o.heads, o.apart, operands);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const auto operand = [&](In of, int which) {
      return group_operand<T>(o.heads, o.apart, of, which);
    };
    for_heads(o, s,
              Backward<T>{{o, s},
                          operand(operands, 0),
                          operand(operands, 1),
                          operand(operands, 2),
                          token_heads<T>(in[1], o.heads),
                          token_heads<T>(in[0], o.heads),
                          operand(out, 0),
                          operand(out, 1),
                          operand(out, 2),
                          in[2].data<T>()});
  });
}

Samples GroupAttentionBackward::samples() {
  Samples all;
  for (const GroupSample& s : group_samples()) {
    const Shape rows{s.batch, s.n, s.options.heads * s.d};
    std::vector<S> inputs{S::uniform(rows), S::uniform(rows),
                          S::uniform({s.batch, s.options.heads, s.n}, 5, 6)};
    const auto operands = sample_operands(s);
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    all.push_back(sample(GroupAttentionBackward(s.options), inputs, 1e-5));
  }
  return all;
}

}  // namespace hg::ops
