#include "tensor/ops/quadratic_attention.h"

#include <bit>
#include <cmath>

#include "tensor/ops/attention/quadratic_backward.h"
#include "tensor/ops/gather.h"

namespace hg::ops {
namespace {

using Map = QuadraticOptions::Map;
using Prior = QuadraticOptions::Prior;
using Score = QuadraticOptions::Score;
using Spread = QuadraticOptions::Spread;

bool is_sparse(const QuadraticOptions& o) {
  return o.map == Map::sparsemax || o.map == Map::entmax15;
}

// Counts of one call, for cost().
struct Counts {
  std::uint64_t heads, n, m, d, r;  // heads of all images
  std::uint64_t seen;               // pairs of a query and a key it sees
  bool bias, query_norm;

  Counts(const QuadraticOptions& o, In in) {
    const QuadraticSizes s(o, in);
    heads = static_cast<std::uint64_t>(s.batch * s.heads);
    n = static_cast<std::uint64_t>(s.n), m = static_cast<std::uint64_t>(s.m);
    d = static_cast<std::uint64_t>(s.d), r = static_cast<std::uint64_t>(s.components);
    seen = heads * (o.causal ? n * (n + 1) / 2 : n * m);
    bias = o.score == Score::rbf || o.norm_const;
    query_norm = o.keeps_query_norm(s.d);
  }
  std::uint64_t pairs() const { return heads * n * m; }
  std::uint64_t product() const { return 2 * pairs() * d; }
  std::uint64_t sort() const { return pairs() * std::bit_width(m - 1); }
};

// Bytes of q and the keys, and of v, in tensors laid out like the forward's inputs.
struct OperandBytes {
  std::uint64_t qk, v;
  OperandBytes(const QuadraticOptions& o, In in) {
    const std::uint64_t third = in[0].bytes() / 3;
    const std::uint64_t own_key = o.replace_keys ? 0 : o.apart ? in[1].bytes() : third;
    v = o.apart ? in[2].bytes() : third;
    qk = (o.apart ? in[0].bytes() : third) + own_key +
         bytes_of(in.subspan(static_cast<std::size_t>(o.base_inputs()),
                             static_cast<std::size_t>(o.extra_keys)));
  }
};

void check_options(const Op& op, const QuadraticOptions& o) {
  require(o.heads > 0, op.name(), "{} heads", o.heads);
  require(o.extra_keys >= 0 && o.components() >= 1 &&
              o.components() <= QuadraticOptions::kMostComponents,
          op.name(), "{} components, expected 1 to {}", o.components(),
          QuadraticOptions::kMostComponents);
  require(o.dropout >= 0 && o.dropout < 1, op.name(), "dropout {} is not in [0, 1)", o.dropout);
  require(!is_sparse(o) || (o.components() == 1 && o.score == Score::dot && !o.norm_const),
          op.name(), "sparse maps take one component and dot scores");
  require(o.map == Map::softmax || (o.prior == Prior::none && !o.causal && !o.responsibilities),
          op.name(), "priors, causal masks and responsibilities need softmax");
  require(o.spread == QuadraticOptions::Spread::none || !o.causal ||
              o.spread != QuadraticOptions::Spread::small,
          op.name(), "small weights are not counted under a causal mask");
  require(!is_sparse(o) || !o.likelihood, op.name(), "sparse maps have no likelihood");
  require(o.position_inputs() == 0 || o.prior != Prior::none, op.name(), "ids without a prior");
  require(!o.query_ids || o.apart, op.name(), "query_ids of queries that are not apart");
}

void check_prior(const Op& op, const QuadraticOptions& o, In in) {
  const QuadraticSizes s(o, in);
  expect_rank(op, in, o.prior_input(), 4);
  const Tensor& prior = in[o.prior_input()];
  const Shape& p = prior.shape();
  const std::int64_t positions = std::max(p[1], p[2]);
  require((p[0] == 1 || p[0] == s.heads) && p[3] == s.components &&
              (p[1] == 1 || p[1] == positions) && (p[2] == 1 || p[2] == positions),
          op.name(), "a prior {} does not fit {} heads and {} components", prior, s.heads,
          s.components);
  require(p[1] == 1 || p[0] == s.heads, op.name(), "priors {} by pair are of each head its own",
          prior);
  if (positions == 1 && !o.ids) return;
  require(s.n == s.m || o.query_ids || (p[1] == 1 && s.n <= s.m), op.name(),
          "priors by position need as many keys as queries, or query_ids, got {} and {}", s.m, s.n);
  if (o.query_ids) {
    expect_dtype(op, in, o.inputs() - 1, DType::i64);
    expect_shape(op, in, o.inputs() - 1, {s.batch, s.n});
  }
  if (!o.ids) {
    require(positions == s.m, op.name(), "a prior {} for {} tokens without ids", prior, s.m);
    return;
  }
  expect_dtype(op, in, o.prior_input() + 1, DType::i64);
  const Tensor& ids = in[o.prior_input() + 1];
  require(ids.shape() == Shape{s.m} || ids.shape() == Shape{s.batch, s.m}, op.name(),
          "ids {} do not fit {} images of {} tokens", ids, s.batch, s.m);
}

void check_operands(const Op& op, const QuadraticOptions& o, In in) {
  check_options(op, o);
  expect_inputs(op, in, static_cast<std::size_t>(o.inputs()));
  expect_float(op, in.first(static_cast<std::size_t>(o.inputs() - o.position_inputs())));
  expect_rank(op, in, 0, 3);
  const std::int64_t parts = o.heads * (o.apart ? 1 : 3);
  require(in[0].dim(2) > 0 && in[0].dim(2) % parts == 0, op.name(),
          "{} does not hold {} of {} heads", in[0], o.apart ? "q" : "q, k and v", o.heads);
  const std::int64_t batch = in[0].dim(0), width = in[0].dim(2) / (o.apart ? 1 : 3);
  if (o.apart) {
    expect_rank(op, in, 1, 3);
    expect_shape(op, in, 1, {batch, in[1].dim(1), width});
    expect_shape(op, in, 2, in[1].shape());
  }
  const QuadraticSizes s(o, in);
  require(s.m > 0, op.name(), "nothing to attend to: {}", in[o.apart ? 1 : 0]);
  require(!o.causal || s.n == s.m, op.name(), "a causal mask needs as many keys as queries");
  for (int i = 0; i < o.extra_keys; ++i)
    expect_shape(op, in, o.base_inputs() + i, {batch, s.m, width});
  if (o.prior != Prior::none) check_prior(op, o, in);
}

void check_positions(const Op& op, const QuadraticOptions& o, In in) {
  for (int list = 1; list <= o.position_inputs(); ++list) {
    const Shape& prior = in[o.prior_input()].shape();
    check_ids(op, in[o.prior_input() + list], std::max(prior[1], prior[2]), "positions");
  }
}

std::uint64_t prior_bytes(const QuadraticOptions& o, In in) {
  return bytes_of(in.subspan(static_cast<std::size_t>(o.prior_input())));
}

// clip, multiply
std::uint64_t prior_flops(const QuadraticOptions& o, const Counts& c) {
  return (o.prior == Prior::none ? 0 : o.prior == Prior::clipped ? 2 : 1) * c.r * c.seen;
}

// Work on one weight beyond its score: see the reference.
std::uint64_t weight_flops(const QuadraticOptions& o, const Counts& c) {
  constexpr std::uint64_t kSpread[] = {0, 3, 2,
                                       1};  // entropy: ln, multiply, add; squares: 2; small
  const std::uint64_t flops =
      ((o.dropout > 0 ? 1 : 0) + kSpread[static_cast<int>(o.spread)]) * c.pairs();
  switch (o.map) {
    case Map::softmax: {  // max, subtract, exp, add; the sum over components, divide
      // max, subtract, exp, add, divide, add; multiply
      const std::uint64_t shares = o.responsibilities ? (o.prior == Prior::none ? 6 : 7) : 0;
      return flops + 5 * c.r * c.seen + prior_flops(o, c) + shares * c.r * c.pairs();
    }
    case Map::best:
      return flops + (c.r - 1 + 5) * c.seen;
    // the search for the threshold counts as sorting does
    case Map::sparsemax:  // running sum 1, test 3, subtract, max
      return flops + c.sort() + 6 * c.pairs();
    case Map::entmax15:  // max, subtract, halve; sums 3, mean 1, t 10; subtract, max, square
      return flops + c.sort() + 20 * c.pairs();
  }
  return flops;
}

// The weights once more, and what the spread adds to their gradients.
std::uint64_t spread_flops(const QuadraticOptions& o, const Counts& c) {
  if (!o.spread_gradient()) return 0;
  const std::uint64_t added = (o.spread == Spread::entropy ? 4 : 2) * c.pairs();
  switch (o.map) {
    case Map::softmax:  // exp(scale s - lse) 3; the sum over components
      return added + (3 * c.r + c.r - 1) * c.seen + prior_flops(o, c);
    case Map::best:  // logits, their max; exp(l - lse) 2
      return added + (c.r * (c.query_norm ? 2 : 1) + c.r - 1 + 2) * c.pairs();
    case Map::sparsemax:  // scale; subtract, max
      return added + 3 * c.pairs();
    case Map::entmax15:  // scale; halve, subtract, max; square
      return added + 5 * c.pairs();
  }
  return added;
}

std::uint64_t backward_weight_flops(const QuadraticOptions& o, const Counts& c, bool wants_prior) {
  const std::uint64_t dropped = o.dropout > 0 ? 2 * c.pairs() : 0;
  const std::uint64_t delta = 2 * c.heads * c.n * c.d;
  switch (o.map) {
    case Map::softmax:  // exp(scale s - lse) 3, ds 3; the sum over components; the prior's 4
      return (6 * c.r + c.r - 1 + (wants_prior ? 4 * c.r : 0)) * c.seen + prior_flops(o, c) +
             delta + dropped;
    case Map::best:  // logits, their max; exp(l - lse) 2, ds 3
      return (c.r * (c.query_norm ? 2 : 1) + c.r - 1 + 5) * c.seen + delta + dropped;
    case Map::sparsemax:  // scale; weights 2, support 1; sums 3; ds 3
      return 10 * c.pairs() + dropped;
    case Map::entmax15:  // scale; root 3, square 1; sums 3; ds 3
      return 11 * c.pairs() + dropped;
  }
  return 0;
}

template <class T>
void clip_gradient(const Tensor& prior, const Tensor& grad) {
  using P = cpu::Packet<T>;
  const P zero = cpu::splat<P>(0.0), one = cpu::splat<P>(1.0);
  cpu::map(
      [&](P g, P p) {
        const P sign = ei::pselect(ei::pcmp_lt(p, zero), ei::pnegate(g), g);
        const P moves = ei::pand(ei::pcmp_lt(ei::pabs(p), one), ei::pcmp_lt(zero, ei::pabs(p)));
        return ei::pselect(moves, sign, zero);
      },
      prior.numel(), grad.data<T>(), grad.data<T>(), prior.data<T>());
}

// Adds what the heads of all images left, [B H, R m], up in the table, image by image.
template <class T>
void add_up(const cpu::QuadraticCall<T>& call, const T* sums, T* table) {
  const QuadraticSizes& s = call.s;
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head)
    for (std::int64_t r = 0; r < s.components; ++r)
      call.add_to_prior(head / s.heads, head % s.heads, 0, r,
                        sums + (head * s.components + r) * s.m, table);
}

// The forward's inputs of a sample: `options` on B images of N tokens (M keys), heads of width D.
struct SampleShape {
  std::int64_t batch, n, m, d;
  Shape prior{}, ids{};
  std::int64_t positions = 1;
};
std::vector<SampleInput> sample_inputs(const QuadraticOptions& o, const SampleShape& at) {
  using S = SampleInput;
  const std::int64_t width = o.heads * at.d;
  std::vector<S> inputs;
  if (o.apart)
    inputs = {S::uniform({at.batch, at.n, width}, -2, 2),
              S::uniform({at.batch, at.m, width}, -2, 2), S::uniform({at.batch, at.m, width})};
  else
    inputs = {S::uniform({at.batch, at.n, 3 * width}, -2, 2)};
  for (int i = 0; i < o.extra_keys; ++i) inputs.push_back(S::uniform({at.batch, at.m, width}));
  if (o.prior != Prior::none) inputs.push_back(S::uniform(at.prior, 0.1, 1.4));
  if (o.ids) inputs.push_back(S::integers(at.ids, at.positions));
  if (o.query_ids) inputs.push_back(S::integers({at.batch, at.n}, at.positions));
  return inputs;
}

struct QuadraticSample {
  QuadraticOptions options;
  SampleShape shape;
};
std::vector<QuadraticSample> quadratic_samples() {
  using O = QuadraticOptions;
  constexpr std::uint64_t kKey = 0x0123456789abcdef;
  return {
      {O{.heads = 1}, {1, 1, 1, 1}},
      {O{.heads = 3, .causal = true}, {2, 17, 17, 5}},
      {O{.heads = 2, .apart = true, .score = Score::rbf}, {1, 3, 5, 4}},
      {O{.heads = 1, .apart = true, .score = Score::rbf, .likelihood = true}, {1, 3, 197, 3}},
      {O{.heads = 2, .extra_keys = 2, .score = Score::rbf, .prior = Prior::plain},
       {2, 5, 5, 3, {2, 1, 1, 3}}},
      {O{.heads = 2,
         .extra_keys = 1,
         .score = Score::rbf,
         .prior = Prior::plain,
         .ids = true,
         .variance = {1.2, 0.5},
         .norm_const = true,
         .likelihood = true,
         .responsibilities = true},
       {2, 5, 5, 3, {2, 1, 9, 2}, {2, 5}, 9}},
      {O{.heads = 2, .extra_keys = 1, .responsibilities = true}, {1, 7, 7, 3}},
      {O{.heads = 2, .prior = Prior::clipped, .ids = true}, {2, 5, 5, 3, {2, 7, 7, 1}, {5}, 7}},
      {O{.heads = 2, .apart = true, .prior = Prior::clipped, .ids = true, .query_ids = true},
       {2, 3, 5, 4, {2, 7, 7, 1}, {2, 5}, 7}},
      {O{.heads = 2, .apart = true, .prior = Prior::clipped, .query_ids = true},
       {2, 3, 6, 4, {2, 6, 6, 1}, {}, 6}},
      {O{.heads = 2, .apart = true, .prior = Prior::clipped, .ids = true},
       {2, 3, 5, 4, {2, 1, 7, 1}, {5}, 7}},
      {O{.heads = 2, .score = Score::rbf, .prior = Prior::clipped}, {3, 6, 6, 3, {2, 6, 6, 1}}},
      {O{.heads = 3, .prior = Prior::clipped, .likelihood = true}, {2, 17, 17, 4, {3, 1, 17, 1}}},
      {O{.heads = 2, .extra_keys = 1, .replace_keys = true, .score = Score::rbf}, {2, 5, 5, 3}},
      {O{.heads = 2,
         .extra_keys = 2,
         .score = Score::rbf,
         .map = Map::best,
         .variance = {1, 1, 0.5}},
       {2, 5, 5, 3}},
      {O{.heads = 2, .map = Map::sparsemax}, {2, 9, 9, 4}},
      {O{.heads = 1, .apart = true, .map = Map::entmax15}, {1, 7, 197, 4}},
      {O{.heads = 2, .dropout = 0.3, .key = kKey, .first = 7}, {2, 9, 9, 4}},
      {O{.heads = 1, .map = Map::entmax15, .dropout = 0.5, .key = kKey}, {1, 6, 6, 4}},
      {O{.heads = 2}, {0, 3, 3, 4}},
      {O{.heads = 2, .spread = Spread::entropy}, {2, 7, 7, 4}},
      {O{.heads = 2, .spread = Spread::entropy, .causal = true}, {1, 6, 6, 3}},
      {O{.heads = 2, .spread = Spread::squares, .dropout = 0.3, .key = kKey}, {1, 6, 6, 3}},
      {O{.heads = 2, .spread = Spread::small}, {1, 6, 6, 3}},
      {O{.heads = 2,
         .extra_keys = 1,
         .score = Score::rbf,
         .prior = Prior::plain,
         .likelihood = true,
         .responsibilities = true,
         .spread = Spread::entropy},
       {2, 5, 5, 3, {2, 1, 5, 2}}},
      {O{.heads = 2, .prior = Prior::clipped, .spread = Spread::squares},
       {2, 6, 6, 3, {2, 6, 6, 1}}},
      {O{.heads = 1,
         .extra_keys = 1,
         .score = Score::rbf,
         .map = Map::best,
         .variance = {1, 0.5},
         .spread = Spread::entropy},
       {1, 5, 5, 3}},
      {O{.heads = 2, .map = Map::sparsemax, .spread = Spread::squares}, {1, 6, 6, 4}},
      {O{.heads = 2, .map = Map::entmax15, .spread = Spread::squares}, {1, 6, 6, 4}},
  };
}

}  // namespace

TensorSpecs QuadraticAttention::infer(In in) const {
  check_operands(*this, options, in);
  const QuadraticSizes s(options, in);
  const TensorSpec lse = in[0].spec({s.batch, s.heads, s.n});
  TensorSpecs specs{in[0].spec({s.batch, s.n, s.heads * s.d}), lse};
  if (options.responsibilities) specs.push_back(in[0].spec({s.batch, s.heads, s.m, s.components}));
  if (options.spread != Spread::none) specs.push_back(lse);
  return specs;
}

// qk: scale 1, bias 1, |q|^2 1 per score; norms 2 per element
CostParts QuadraticAttention::cost(In in, In out) const {
  const Counts c(options, in);
  const OperandBytes bytes(options, in);
  std::uint64_t scores = c.r * c.seen * (c.query_norm ? 2 : 1) + (c.bias ? c.r * c.pairs() : 0);
  if (options.score == Score::rbf) scores += 2 * c.r * c.heads * c.m * c.d;
  if (c.query_norm) scores += 2 * c.heads * c.n * c.d;
  return {{"qk", {c.r * c.product(), scores, bytes.qk, 0}},
          {"weights",
           {0, weight_flops(options, c), prior_bytes(options, in), bytes_of(out.subspan(1))}},
          {"av", {c.product(), 0, bytes.v, out[0].bytes()}}};
}

void QuadraticAttention::cpu(In in, Out out) const {
  check_positions(*this, options, in);
  const QuadraticSizes s(options, in);
  // Responsibilities are summed over all queries.
  const std::int64_t rows =
      options.responsibilities ? std::max<std::int64_t>(s.n, 1) : cpu::kRowsOfPiece;
  const std::int64_t pieces = (s.n + rows - 1) / rows;
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    cpu::QuadraticForward<T> forward{
        cpu::QuadraticCall<T>(options, in), token_heads<T>(out[0], options.heads), out[1].data<T>(),
        options.responsibilities ? out[2].data<T>() : nullptr,
        options.spread != Spread::none ? out[options.spread_output()].data<T>() : nullptr};
    const cpu::SharedPriors<T> shared(forward.call);
    cpu::parallel_each(s.batch * s.heads * pieces, 1, [&](std::int64_t task) {
      const std::int64_t head = task / pieces, first = task % pieces * rows;
      forward(head / s.heads, head % s.heads, first, std::min(first + rows, s.n));
    });
  });
}

Tensors QuadraticAttention::grad(const GradArgs& args) const {
  Tensors inputs{args.grad_or_zeros(0), args.out[0], args.out[1]};
  if (options.likelihood) inputs.push_back(args.grad_or_zeros(1));
  if (options.spread_gradient()) {
    inputs.push_back(args.out[options.spread_output()]);
    inputs.push_back(args.grad_or_zeros(options.spread_output()));
  }
  inputs.insert(inputs.end(), args.in.begin(), args.in.end());
  const bool wants_prior = options.prior != Prior::none && args.needs(options.prior_input());
  Tensors grads = run(QuadraticAttentionBackward(options, wants_prior), inputs);
  grads.resize(args.in.size());
  return grads;
}

Samples QuadraticAttention::samples() {
  Samples all;
  for (const QuadraticSample& s : quadratic_samples())
    all.push_back(sample(QuadraticAttention(s.options), sample_inputs(s.options, s.shape), 1e-5));
  return all;
}

TensorSpecs QuadraticAttentionBackward::infer(In in) const {
  require(std::ssize(in) == before() + options.inputs(), name(), "expected {} inputs, got {}",
          before() + options.inputs(), in.size());
  const In forward = in.subspan(static_cast<std::size_t>(before()));
  expect_float(*this, in.first(in.size() - static_cast<std::size_t>(options.position_inputs())));
  check_operands(*this, options, forward);
  const QuadraticSizes s(options, forward);
  expect_shape(*this, in, 0, {s.batch, s.n, s.heads * s.d});
  expect_shape(*this, in, 1, in[0].shape());
  for (int i = 2; i < before(); ++i) expect_shape(*this, in, i, {s.batch, s.heads, s.n});
  TensorSpecs specs;
  for (int i = 0; i < options.prior_input() + wants_prior; ++i) specs.push_back(forward[i].spec());
  return specs;
}

// qk: scores again, dq, dk; bias 1 and |q|^2 1 per score, norms 2, sums of ds 1, their part 2
CostParts QuadraticAttentionBackward::cost(In in, In out) const {
  const In forward = in.subspan(static_cast<std::size_t>(before()));
  const Counts c(options, forward);
  const OperandBytes read(options, forward), written(options, out);
  const std::uint64_t rows = c.heads * c.n * c.d, columns = c.r * c.heads * c.m * c.d;
  std::uint64_t scores = c.bias ? c.r * c.pairs() : 0;
  if (options.score == Score::rbf) scores += 4 * columns + c.r * c.pairs();
  if (c.query_norm) scores += 4 * rows + c.r * c.pairs();
  const Tensor* const prior = wants_prior ? &out[out.size() - 1] : nullptr;
  std::uint64_t weights = backward_weight_flops(options, c, wants_prior) + spread_flops(options, c);
  if (prior && prior->dim(1) == 1) weights += c.r * c.heads * c.m;
  if (prior && options.prior == Prior::clipped) weights += count(*prior);
  const std::uint64_t unread = is_sparse(options) ? in[1].bytes() : 0;
  // Where keys are replaced, the gradient of those in qkv is zero, but written.
  const std::uint64_t own_key =
      options.replace_keys ? (options.apart ? out[1].bytes() : out[0].bytes() / 3) : 0;
  return {{"qk", {3 * c.r * c.product(), scores, read.qk, written.qk + own_key}},
          {"weights",
           {0, weights,
            bytes_of(in.first(static_cast<std::size_t>(before()))) - unread +
                prior_bytes(options, forward),
            prior ? prior->bytes() : 0}},
          {"av", {2 * c.product(), 0, read.v, written.v}}};
}

void QuadraticAttentionBackward::cpu(In in, Out out) const {
  const In forward = in.subspan(static_cast<std::size_t>(before()));
  check_positions(*this, options, forward);
  const QuadraticSizes s(options, forward);
  const std::int64_t heads = s.batch * s.heads;
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    cpu::QuadraticBackward<T> backward{cpu::QuadraticCall<T>(options, forward),
                                       token_heads<T>(in[1], options.heads),
                                       token_heads<T>(in[0], options.heads),
                                       base_operand<T>(options, out, 0),
                                       base_operand<T>(options, out, 2),
                                       {},
                                       in[2].data<T>(),
                                       options.likelihood ? in[3].data<T>() : nullptr,
                                       nullptr,
                                       nullptr,
                                       nullptr};
    if (options.spread_gradient()) {
      const auto at = static_cast<std::size_t>(spread_input());
      backward.spread = in[at].data<T>();
      backward.grad_spread = in[at + 1].data<T>();
    }
    const cpu::SharedPriors<T> shared(backward.call);
    for (int r = 0; r < s.components; ++r) backward.dk[r] = key_operand<T>(options, out, r);
    if (options.replace_keys) std::fill_n(out[0].data<T>(), out[0].numel(), T{0});
    if (options.replace_keys && options.apart) std::fill_n(out[1].data<T>(), out[1].numel(), T{0});
    Tensor table = wants_prior ? out[out.size() - 1] : Tensor();
    if (wants_prior) std::fill_n(table.data<T>(), table.numel(), T{0});
    const bool by_pair = wants_prior && backward.call.prior_per_query();
    if (by_pair) {  // images share the table: they come one after the other
      backward.grad_prior = table.data<T>();
      cpu::parallel_each(s.heads, 1, [&](std::int64_t h) {
        for (std::int64_t b = 0; b < s.batch; ++b) backward(b, h, nullptr);
      });
    } else {
      const cpu::Scratch<T> sums(wants_prior ? heads * s.row() : 0);
      cpu::parallel_each(heads, 1, [&](std::int64_t head) {
        backward(head / s.heads, head % s.heads, wants_prior ? sums + head * s.row() : nullptr);
      });
      if (wants_prior) add_up<T>(backward.call, sums, table.data<T>());
    }
    if (wants_prior && options.prior == Prior::clipped)
      clip_gradient<T>(forward[options.prior_input()], table);
  });
}

Samples QuadraticAttentionBackward::samples() {
  Samples all;
  for (const auto& [o, at] : quadratic_samples()) {
    const Shape rows{at.batch, o.heads, at.n};
    const S out = S::uniform({at.batch, at.n, o.heads * at.d});
    // of the size of a row's logarithm, and for sparse maps below some of the scores
    std::vector<S> inputs{out, out,
                          is_sparse(o) ? S::uniform(rows, -1, -0.5) : S::uniform(rows, 2, 3)};
    if (o.likelihood) inputs.push_back(S::uniform(rows));
    if (o.spread_gradient()) {
      inputs.push_back(S::uniform(rows, 0.5, 1));
      inputs.push_back(S::uniform(rows));
    }
    for (const S& input : sample_inputs(o, at)) inputs.push_back(input);
    const bool wants_prior = o.prior != Prior::none && !o.responsibilities;
    all.push_back(sample(QuadraticAttentionBackward(o, wants_prior), inputs, 1e-5));
  }
  return all;
}

}  // namespace hg::ops
