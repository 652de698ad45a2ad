#include "tensor/ops/sparse_attention.h"

#include <cmath>

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/scratch.h"
#include "tensor/ops/attention/sparse_rows.h"
#include "tensor/random.h"

namespace hg::ops {
namespace {

struct Sizes {
  std::int64_t batch, heads, n, d;
  Sizes(const SparseAttentionOptions& o, const Tensor& q)
      : batch(q.dim(0)), heads(o.supports.heads()), n(q.dim(1)), d(q.dim(2) / heads) {}
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
};

// What cost() counts with.
struct Counts {
  std::uint64_t pairs, keys, rows, d, index;  // index: pairs of the lists, which images share
  Counts(const SparseAttentionOptions& o, const Tensor& q) {
    const Sizes s(o, q);
    pairs = static_cast<std::uint64_t>(o.supports.pairs(s.batch));
    keys = static_cast<std::uint64_t>(o.supports.kept(s.batch));
    rows = static_cast<std::uint64_t>(s.batch * s.heads * s.n);
    d = static_cast<std::uint64_t>(s.d);
    index = static_cast<std::uint64_t>(
        s.batch == 0 ? 0 : o.supports.pairs(o.supports.size() == 1 ? 1 : s.batch));
  }
  std::uint64_t product() const { return 2 * pairs * d; }
};

// Rows of scores worked on at a time: their lists stay in a core's L2 cache.
constexpr std::int64_t kRows = 64;

// Lists with neighbouring tiles taken together, as narrow rows leave room for more of them in L1.
class Spans {
 public:
  static constexpr std::int64_t kMostTiles = 4, kMostRows = kMostTiles * PairSupport::kTile;

  Spans(const PairSupport::Lists& lists, std::int64_t d)
      : others(lists.others),
        places(lists.places),
        lists_(lists),
        tiles_(std::clamp<std::int64_t>(kWidestRow / d, 1, kMostTiles)) {}

  std::int64_t count() const { return (lists_.tiles + tiles_ - 1) / tiles_; }
  std::int64_t begin(std::int64_t row, std::int64_t span) const {
    return lists_.begin(row, std::min(span * tiles_, lists_.tiles));
  }
  const std::uint16_t* const others;
  const std::uint32_t* const places;

 private:
  static constexpr std::int64_t kWidestRow = 64;  // elements, with which a tile fills L1
  const PairSupport::Lists lists_;
  const std::int64_t tiles_;
};

// One (image, head): where its keys, pairs and rows are.
struct Head {
  std::int64_t b, h, n, d, width;  // width: of a token in q and o
  std::int64_t first_key, first_pair, keys, pairs;
  Spans by_query, by_key;

  Head(const SparseAttentionOptions& o, const Sizes& s, std::int64_t index)
      : b(index / s.heads),
        h(index % s.heads),
        n(s.n),
        d(s.d),
        width(s.heads * s.d),
        by_query(o.supports.of_image(b).by_query(h), d),
        by_key(o.supports.of_image(b).by_key(h), d) {
    const PairSupport& support = o.supports.of_image(b);
    first_key = o.supports.kept(b) + support.first_key(h);
    first_pair = o.supports.pairs(b) + support.first_pair(h);
    keys = support.kept(h), pairs = support.pairs(h);
  }
  std::int64_t row(std::int64_t i) const { return (b * n + i) * width + h * d; }
};

template <class T>
std::int64_t packets_of(std::int64_t d) {
  return (d + cpu::kLanes<T> - 1) / cpu::kLanes<T>;
}

// `rows` rows of d elements, `stride` apart, as whole packets: in place where they are such.
template <class T>
class Padded {
 public:
  Padded(const T* x, std::int64_t rows, std::int64_t d, std::int64_t stride)
      : packets_(packets_of<T>(d)),
        in_place_(stride == width() && d == width()),
        copy_(in_place_ ? 1 : std::max<std::int64_t>(1, rows * width())),
        data_(in_place_ ? x : copy_) {
    if (in_place_) return;
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const row = copy_ + r * width();
      std::copy_n(x + r * stride, d, row);
      std::fill(row + d, row + width(), T{0});
    }
  }
  std::int64_t width() const { return packets_ * cpu::kLanes<T>; }
  const T* row(std::int64_t i) const { return data_ + i * width(); }
  cpu::PaddedRows<T> table() const { return {data_, packets_}; }

 private:
  std::int64_t packets_;
  bool in_place_;
  cpu::Scratch<T> copy_;
  const T* data_;
};

// 1 / (1 - p) where pair `place` of the call keeps its weight, 0 where it is dropped.
template <class T>
T kept_weight(const SparseAttentionOptions& o, std::int64_t place) {
  const std::uint64_t draw = o.first + static_cast<std::uint64_t>(place);
  const double u = uniform_from_bits(draw_block(o.key, draw / 4)[draw % 4]);
  return static_cast<T>(u < o.dropout ? 0 : 1 / (1 - o.dropout));
}

// y_i = sum_j w_ij row_j for queries [i, i + rows), w_ij of the head's pairs from `first` on.
template <class T>
void sum_rows(const Head& head, std::int64_t i, std::int64_t rows, const Padded<T>& table,
              const T* weights, std::int64_t first, T* sums, T* y) {
  const Spans& lists = head.by_query;
  for (std::int64_t t = 0; t < lists.count(); ++t)
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t begin = lists.begin(i + r, t), count = lists.begin(i + r, t + 1) - begin;
      const T* const weight = weights + begin - first;
      table.table().weighted_sum(
          lists.others + begin, count, [&](std::int64_t p) { return weight[p]; }, t > 0,
          sums + r * table.width());
    }
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(sums + r * table.width(), head.d, y + head.row(i + r));
}

template <class T>
struct Forward {
  const SparseAttentionOptions& options;
  Sizes s;
  const T *q, *k, *v;
  T *o, *weights;

  void operator()(std::int64_t index) const {
    const Head head(options, s, index);
    const Padded<T> queries(q + head.row(0), s.n, s.d, head.width);
    const Padded<T> keys(k + head.first_key * s.d, head.keys, s.d, s.d);
    const Padded<T> values(v + head.first_key * s.d, head.keys, s.d, s.d);
    const cpu::Scratch<T> bias(options.rbf ? std::max<std::int64_t>(1, head.keys) : 1);
    if (options.rbf)
      for (std::int64_t j = 0; j < head.keys; ++j)
        bias[j] = T(-0.5) * cpu::dot(s.d, keys.row(j), keys.row(j));
    const std::int64_t longest = std::min(head.pairs, kRows * head.keys) + cpu::kLanes<T>;
    const cpu::Scratch<T> scores(longest), sums(kRows * values.width());
    for (std::int64_t i = 0; i < s.n; i += kRows) {
      const std::int64_t rows = std::min(kRows, s.n - i);
      score_rows(head, i, rows, queries, keys.table(), scores);
      for (std::int64_t r = 0; r < rows; ++r) softmax_row(head, i, i + r, bias, scores);
      sum_rows<T>(head, i, rows, values, scores, head.by_query.begin(i, 0), sums, o);
    }
  }

  // Places of rows [i, ..) in `scores`, where row i begins at 0.
  static std::int64_t place(const Head& head, std::int64_t i, std::int64_t row, std::int64_t tile) {
    return head.by_query.begin(row, tile) - head.by_query.begin(i, 0);
  }

  void score_rows(const Head& head, std::int64_t i, std::int64_t rows, const Padded<T>& queries,
                  const cpu::PaddedRows<T>& keys, T* scores) const {
    const Spans& lists = head.by_query;
    // A list's last packet runs over into the next list, so a row's spans are made in order and
    // rows go down; spans are the outer loop to stay in cache, so each list ends in a copy.
    for (std::int64_t t = 0; t < lists.count(); ++t)
      for (std::int64_t r = i; r < i + rows; ++r) {
        const std::int64_t begin = lists.begin(r, t), count = lists.begin(r, t + 1) - begin;
        T row[Spans::kMostRows + cpu::kLanes<T>];
        keys.dots(queries.row(r), lists.others + begin, count, row);
        std::copy_n(row, count, scores + place(head, i, r, t));
      }
  }

  void softmax_row(const Head& head, std::int64_t i, std::int64_t row, const T* bias,
                   T* scores) const {
    const Spans& lists = head.by_query;
    const std::int64_t begin = lists.begin(row, 0), n = lists.begin(row + 1, 0) - begin;
    T* const x = scores + place(head, i, row, 0);
    if (options.rbf)
      for (std::int64_t p = 0; p < n; ++p) x[p] += bias[lists.others[begin + p]];
    const T scale = static_cast<T>(s.scale());
    const T sum = cpu::exp_sum(n, x, scale, scale * cpu::row_max_of_numbers(n, x), x);
    cpu::scale_row(n, T{1} / sum, x, x);
    const std::int64_t first = head.first_pair + begin;
    std::copy_n(x, n, weights + first);
    if (options.dropout > 0)
      for (std::int64_t p = 0; p < n; ++p) x[p] *= kept_weight<T>(options, first + p);
  }
};

template <class T>
struct Backward {
  const SparseAttentionOptions& options;
  Sizes s;
  const T *grad_o, *o, *weights, *q, *k, *v;
  T *dq, *dk, *dv;

  void operator()(std::int64_t index) const {
    const Head head(options, s, index);
    const Padded<T> queries(q + head.row(0), s.n, s.d, head.width);
    const Padded<T> grads(grad_o + head.row(0), s.n, s.d, head.width);
    const Padded<T> keys(k + head.first_key * s.d, head.keys, s.d, s.d);
    const Padded<T> values(v + head.first_key * s.d, head.keys, s.d, s.d);
    const std::int64_t size = std::max<std::int64_t>(1, head.pairs);
    const cpu::Scratch<T> ds(size), dropped(options.dropout > 0 ? size : 1);
    const T* const p = weights + head.first_pair;
    const T* used = p;  // the weights that values were multiplied with
    if (options.dropout > 0) {
      for (std::int64_t t = 0; t < head.pairs; ++t)
        dropped[t] = p[t] * kept_weight<T>(options, head.first_pair + t);
      used = dropped;
    }
    score_gradients(head, grads, values.table(), p, ds);
    // dq_i = sum_j ds_ij k_j; with rbf the same, the part of q_i itself adding up to 0
    const cpu::Scratch<T> sums(kRows * keys.width());
    for (std::int64_t i = 0; i < s.n; i += kRows)
      sum_rows<T>(head, i, std::min(kRows, s.n - i), keys, ds, 0, sums, dq);
    by_key(head, grads, used, dv);
    by_key(head, queries, ds, dk);
    if (options.rbf) subtract_norms(head, ds);
  }

  // ds = p (do.v - do.o) scale, with do.v multiplied as its weight was
  void score_gradients(const Head& head, const Padded<T>& grads, const cpu::PaddedRows<T>& values,
                       const T* p, T* ds) const {
    const Spans& lists = head.by_query;
    const cpu::Scratch<T> delta(std::max<std::int64_t>(1, s.n));
    for (std::int64_t i = 0; i < s.n; ++i)
      delta[i] = cpu::dot(s.d, grad_o + head.row(i), o + head.row(i));
    const auto scale = ei::pset1<cpu::Packet<T>>(static_cast<T>(s.scale()));
    for (std::int64_t first = 0; first < s.n; first += kRows)
      for (std::int64_t t = 0; t < lists.count(); ++t)
        for (std::int64_t i = first; i < std::min(first + kRows, s.n); ++i) {
          const std::int64_t begin = lists.begin(i, t), count = lists.begin(i, t + 1) - begin;
          T row[Spans::kMostRows + cpu::kLanes<T>];
          values.dots(grads.row(i), lists.others + begin, count, row);
          if (options.dropout > 0)
            for (std::int64_t c = 0; c < count; ++c)
              row[c] *= kept_weight<T>(options, head.first_pair + begin + c);
          const auto shift = ei::pset1<cpu::Packet<T>>(delta[i]);
          cpu::map([&](auto g, auto w) { return ei::pmul(ei::pmul(w, ei::psub(g, shift)), scale); },
                   count, ds + begin, row, p + begin);
        }
  }

  // y_j = sum_i weight_ij row_i of all kept keys j
  void by_key(const Head& head, const Padded<T>& rows, const T* weight, T* y) const {
    const Spans& lists = head.by_key;
    const bool whole = rows.width() == s.d;
    T* const out = y + head.first_key * s.d;
    const cpu::Scratch<T> padded(whole ? 1 : std::max<std::int64_t>(1, head.keys * rows.width()));
    T* const sums = whole ? out : padded;
    for (std::int64_t t = 0; t < lists.count(); ++t)
      for (std::int64_t j = 0; j < head.keys; ++j) {
        const std::int64_t begin = lists.begin(j, t);
        rows.table().weighted_sum(
            lists.others + begin, lists.begin(j, t + 1) - begin,
            [&](std::int64_t c) { return weight[lists.places[begin + c]]; }, t > 0,
            sums + j * rows.width());
      }
    if (whole) return;
    for (std::int64_t j = 0; j < head.keys; ++j)
      std::copy_n(sums + j * rows.width(), s.d, out + j * s.d);
  }

  // dk_j -= (sum_i ds_ij) k_j
  void subtract_norms(const Head& head, const T* ds) const {
    const Spans& lists = head.by_key;
    for (std::int64_t j = 0; j < head.keys; ++j) {
      T sum = 0;
      for (std::int64_t c = lists.begin(j, 0); c < lists.begin(j + 1, 0); ++c)
        sum += ds[lists.places[c]];
      const std::int64_t row = (head.first_key + j) * s.d;
      cpu::add_scaled(s.d, -sum, k + row, dk + row);
    }
  }
};

void check_operands(const Op& op, const SparseAttentionOptions& o, In in) {
  expect_float(op, in);
  expect_rank(op, in, 0, 3);
  o.supports.check(op, in[0]);
  require(o.dropout >= 0 && o.dropout < 1, op.name(), "dropout {} is not in [0, 1)", o.dropout);
  const std::int64_t heads = o.supports.heads();
  require(in[0].dim(2) > 0 && in[0].dim(2) % heads == 0, op.name(), "{} does not hold {} heads",
          in[0], heads);
  expect_shape(op, in, 1, {o.supports.kept(in[0].dim(0)), in[0].dim(2) / heads});
  expect_shape(op, in, 2, in[1].shape());
}

// A pattern without structure; row 2 of each head has no pair, and key 1 no query.
std::shared_ptr<const PairSupport> sample_support(std::int64_t heads, std::int64_t tokens) {
  return std::make_shared<const PairSupport>(
      heads, tokens, [tokens](std::int64_t h, std::int64_t i, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < tokens; ++j)
          if (i != 2 && j != 1 && (i * 7 + j * 5 + i * j + h) % 3 == 0)
            keys.push_back(static_cast<std::uint16_t>(j));
      });
}

struct SparseSample {
  SparseAttentionOptions options;
  std::int64_t batch, n, d;
};
std::vector<SparseSample> sparse_samples() {
  constexpr std::uint64_t kKey = 0x0123456789abcdef;
  const auto support = [](std::int64_t heads, std::int64_t n) { return sample_support(heads, n); };
  return {{{{PairSupport::whole(1, 1)}}, 1, 1, 1},
          {{{support(3, 17)}}, 2, 17, 5},
          {{{support(1, 197)}}, 1, 197, 3},
          {{{support(2, 101)}, true}, 1, 101, 8},
          {{{support(2, 9), support(2, 9), PairSupport::whole(2, 9)}, true}, 3, 9, 4},
          {{{support(2, 12)}, false, 0.3, kKey, 5}, 2, 12, 3},
          {{{support(1, 5)}}, 1, 5, 130},
          {{{support(2, 4)}}, 0, 4, 3}};
}

std::vector<SampleInput> sample_operands(const SparseSample& s) {
  using S = SampleInput;
  const Shape keys{s.options.supports.kept(s.batch), s.d};
  return {S::uniform({s.batch, s.n, s.options.supports.heads() * s.d}, -2, 2),
          S::uniform(keys, -2, 2), S::uniform(keys)};
}

}  // namespace

TensorSpecs SparseAttention::infer(In in) const {
  expect_inputs(*this, in, 3);
  check_operands(*this, options, in);
  return {in[0].spec(), in[0].spec({options.supports.pairs(in[0].dim(0))})};
}

// qk: scale 1 a pair (rbf: bias 1, |k|^2 2 an element); softmax 5 a pair. Lists: 2 bytes a pair.
CostParts SparseAttention::cost(In in, In out) const {
  const Counts c(options, in[0]);
  const std::uint64_t scores = options.rbf ? 2 * c.pairs + 2 * c.keys * c.d : c.pairs;
  return {{"qk", {c.product(), scores, in[0].bytes() + in[1].bytes() + 2 * c.index, 0}},
          {"softmax", {0, (options.dropout > 0 ? 6 : 5) * c.pairs, 0, out[1].bytes()}},
          {"av", {c.product(), 0, in[2].bytes(), out[0].bytes()}}};
}

void SparseAttention::cpu(In in, Out out) const {
  const Sizes s(options, in[0]);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const Forward<T> forward{
        options,         s, in[0].data<T>(), in[1].data<T>(), in[2].data<T>(), out[0].data<T>(),
        out[1].data<T>()};
    cpu::parallel_each(s.batch * s.heads, 1, [&](std::int64_t head) { forward(head); });
  });
}

Tensors SparseAttention::grad(const GradArgs& args) const {
  return run(SparseAttentionBackward(options),
             {{args.grad_out[0], args.out[0], args.out[1], args.in[0], args.in[1], args.in[2]}});
}

Samples SparseAttention::samples() {
  Samples all;
  for (const SparseSample& s : sparse_samples())
    all.push_back(sample(SparseAttention(s.options), sample_operands(s), 1e-5));
  return all;
}

TensorSpecs SparseAttentionBackward::infer(In in) const {
  expect_floats(*this, in, 6);
  check_operands(*this, options, in.subspan(3));
  expect_shape(*this, in, 0, in[3].shape());
  expect_shape(*this, in, 1, in[3].shape());
  expect_shape(*this, in, 2, {options.supports.pairs(in[3].dim(0))});
  return {in[3].spec(), in[4].spec(), in[5].spec()};
}

// qk: dq, dk (rbf: sum over queries 1 a pair, 2 an element); softmax: do.o 2 an element, ds 3 a
// pair, dropout 2; av: do.v, dv. Lists: 2 bytes a pair by query, 6 by key.
CostParts SparseAttentionBackward::cost(In in, In out) const {
  const Counts c(options, in[3]);
  const std::uint64_t norms = options.rbf ? c.pairs + 2 * c.keys * c.d : 0;
  const std::uint64_t dropped = options.dropout > 0 ? 2 * c.pairs : 0;
  return {
      {"qk",
       {2 * c.product(), norms, in[3].bytes() + in[4].bytes(), out[0].bytes() + out[1].bytes()}},
      {"softmax",
       {0, 2 * c.rows * c.d + 3 * c.pairs + dropped, bytes_of(in.first(3)) + 8 * c.index, 0}},
      {"av", {2 * c.product(), 0, in[5].bytes(), out[2].bytes()}}};
}

void SparseAttentionBackward::cpu(In in, Out out) const {
  const Sizes s(options, in[3]);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const Backward<T> backward{options,          s,
                               in[0].data<T>(),  in[1].data<T>(),
                               in[2].data<T>(),  in[3].data<T>(),
                               in[4].data<T>(),  in[5].data<T>(),
                               out[0].data<T>(), out[1].data<T>(),
                               out[2].data<T>()};
    cpu::parallel_each(s.batch * s.heads, 1, [&](std::int64_t head) { backward(head); });
  });
}

Samples SparseAttentionBackward::samples() {
  Samples all;
  for (const SparseSample& s : sparse_samples()) {
    const auto operands = sample_operands(s);
    std::vector<S> inputs{S::uniform(operands[0].shape), S::uniform(operands[0].shape),
                          S::uniform({s.options.supports.pairs(s.batch)}, 0, 1)};
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    all.push_back(sample(SparseAttentionBackward(s.options), inputs, 1e-5));
  }
  return all;
}

}  // namespace hg::ops
