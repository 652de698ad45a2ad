#pragma once

#include "tensor/ops/group_attention.h"
#include "tensor/random.h"
#include "tensor/reference.h"

namespace hg::ops {

// Walks all pairs that are computed, row by row, and knows where their elements are.
struct GroupReference {
  const GroupAttentionOptions& o;
  std::int64_t batch, heads, n, m, d;

  template <class T>
  GroupReference(const GroupAttentionOptions& options, RefIn<T> in)
      : o(options),
        batch(in[0].dim(0)),
        heads(o.heads),
        n(in[0].dim(1)),
        m(o.apart ? in[1].dim(1) : n),
        d(in[0].dim(2) / (heads * (o.apart ? 1 : 3))) {
    if (!ref::tally || batch == 0) return;
    ref::part("qk");
    ref::tally->current().bytes_read += o.groups.bytes();
  }

  struct Row {
    std::int64_t b, h, i;
  };
  struct Pair {
    std::int64_t key;
    bool masked;
  };
  void for_each_row(auto body) const {
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < n; ++i) body(Row{b, h, i}, pairs_of({b, h, i}));
  }
  std::vector<Pair> pairs_of(const Row& at) const {
    const Grouping g = o.groups.of_image(at.b).of_head(at.h);
    const int i = static_cast<int>(at.i);
    std::vector<Pair> pairs;
    for (int r = 0; r < g.rounds; ++r) {
      const int own = g.group_of_query(r, i);
      for (int j = 0; j < m; ++j) {
        const int of_key = g.group_of_key(r, j);
        const bool here = own == Grouping::kEverywhere || of_key == Grouping::kEverywhere
                              ? r == 0
                              : own == of_key;
        bool before = false;
        for (int past = 0; past < r; ++past)
          before = before || g.group_of_query(past, i) == g.group_of_key(past, j);
        if (here) pairs.push_back({j, before || g.left_out[i] == j});
      }
    }
    return pairs;
  }
  std::size_t tensor(int which) const { return o.apart ? static_cast<std::size_t>(which) : 0; }
  std::int64_t operand(int which, const Row& at, std::int64_t token) const {
    const std::int64_t tokens = which == 0 ? n : m;
    if (o.apart) return ((at.b * tokens + token) * heads + at.h) * d;
    return (((at.b * n + token) * 3 + which) * heads + at.h) * d;
  }
  std::int64_t output(const Row& at) const { return ((at.b * n + at.i) * heads + at.h) * d; }
  std::int64_t statistic(const Row& at) const { return (at.b * heads + at.h) * n + at.i; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  double kept(const Row& at, std::int64_t j) const {
    const std::uint64_t draw = o.first + static_cast<std::uint64_t>(statistic(at) * m + j);
    const double u = uniform_from_bits(draw_block(o.key, draw / 4)[draw % 4]);
    return u < o.dropout ? 0 : 1 / (1 - o.dropout);
  }
};

template <class T>
void reference(const GroupAttention& op, RefIn<T> in, RefOut<T> out) {
  for (const char* name : {"softmax", "av", "qk"}) ref::part(name);
  const GroupReference x(op.options, in);
  auto &q = in[x.tensor(0)], &k = in[x.tensor(1)], &v = in[x.tensor(2)];
  x.for_each_row([&](const auto& at, const auto& pairs) {
    std::vector<T> a;
    const std::int64_t row = x.operand(0, at, at.i);
    ref::part("qk");
    for (const auto& pair : pairs) {
      T s(0);
      const std::int64_t key = x.operand(1, at, pair.key);
      for (std::int64_t c = 0; c < x.d; ++c) ref::mac(s, q[row + c], k[key + c]);
      s = s * T(x.scale());
      a.push_back(pair.masked ? T(-std::numeric_limits<double>::infinity()) : s);
    }
    ref::part("softmax");
    out[1][x.statistic(at)] = ref::softmax(a);
    for (std::size_t p = 0; p < a.size() && op.options.dropout > 0; ++p)
      a[p] = a[p] * T(x.kept(at, pairs[p].key));
    ref::part("av");
    for (std::int64_t c = 0; c < x.d; ++c) {
      T o(0);
      for (std::size_t p = 0; p < a.size(); ++p)
        ref::mac(o, a[p], v[x.operand(2, at, pairs[p].key) + c]);
      out[0][x.output(at) + c] = o;
    }
  });
}

// in: do, o, lse, then q, k, v
template <class T>
void group_pair_gradient(const GroupReference& x, const GroupReference::Row& at,
                         const GroupReference::Pair& pair, T delta, RefIn<T> in, RefOut<T> out) {
  const RefIn<T> operands = in.subspan(3);
  auto &q = operands[x.tensor(0)], &k = operands[x.tensor(1)], &v = operands[x.tensor(2)];
  auto &dq = out[x.tensor(0)], &dk = out[x.tensor(1)], &dv = out[x.tensor(2)];
  const std::int64_t row = x.operand(0, at, at.i), key = x.operand(1, at, pair.key),
                     value = x.operand(2, at, pair.key), o = x.output(at);
  T s(0), g(0);
  ref::part("qk");
  for (std::int64_t c = 0; c < x.d; ++c) ref::mac(s, q[row + c], k[key + c]);
  ref::part("av");
  for (std::int64_t c = 0; c < x.d; ++c) ref::mac(g, in[0][o + c], v[value + c]);
  ref::part("softmax");
  T p = ref::exp(s * T(x.scale()) - in[2][x.statistic(at)]);
  if (pair.masked) p = T(0);
  T used = p;
  if (x.o.dropout > 0) {
    g = g * T(x.kept(at, pair.key));
    used = used * T(x.kept(at, pair.key));
  }
  const T ds = p * (g - delta) * T(x.scale());
  ref::part("av");
  for (std::int64_t c = 0; c < x.d; ++c) ref::mac(dv[value + c], used, in[0][o + c]);
  ref::part("qk");
  for (std::int64_t c = 0; c < x.d; ++c) {
    ref::mac(dq[row + c], ds, k[key + c]);
    ref::mac(dk[key + c], ds, q[row + c]);
  }
}

template <class T>
void reference(const GroupAttentionBackward& op, RefIn<T> in, RefOut<T> out) {
  for (const char* name : {"softmax", "av", "qk"}) ref::part(name);
  const GroupReference x(op.options, in.subspan(3));
  for (auto& grad : out)
    for (std::int64_t i = 0; i < grad.numel(); ++i) {
      const bool is_v = op.options.apart ? &grad == &out[2] : i / (x.heads * x.d) % 3 == 2;
      ref::part(is_v ? "av" : "qk");
      grad[i] = T(0);
    }
  x.for_each_row([&](const auto& at, const auto& pairs) {
    ref::part("softmax");
    T delta(0);
    for (std::int64_t c = 0; c < x.d; ++c)
      delta += in[0][x.output(at) + c] * in[1][x.output(at) + c];
    for (const auto& pair : pairs) group_pair_gradient(x, at, pair, delta, in, out);
  });
}

}  // namespace hg::ops
