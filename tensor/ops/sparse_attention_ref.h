#pragma once

#include "tensor/ops/sparse_attention.h"
#include "tensor/random.h"
#include "tensor/reference.h"

namespace hg::ops {

// Walks all pairs (image, head, query, key) of the support in order, with the places of each.
template <class T>
struct SparseReference {
  const SparseAttentionOptions& o;
  std::int64_t batch, heads, n, d;

  SparseReference(const SparseAttentionOptions& options, RefTensor<T>& q)
      : o(options), batch(q.dim(0)), heads(o.supports.heads()), n(q.dim(1)), d(q.dim(2) / heads) {}

  struct Pair {
    std::int64_t weight, key;  // places in weights and in k and v
  };
  // body(first element of the query's row in q, its pairs)
  void for_each_row(auto body) const {
    std::int64_t first_key = 0, weight = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      const PairSupport& support = o.supports.of_image(b);
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < n; ++i) {
          std::vector<Pair> pairs;
          for (std::int64_t j = 0; j < support.kept(h); ++j)
            if (support.has(h, i, support.kept_tokens(h)[j]))
              pairs.push_back({weight++, first_key + j});
          body(((b * n + i) * heads + h) * d, pairs);
        }
        first_key += support.kept(h);
      }
    }
  }
  void count_lists(std::uint64_t bytes_a_pair) const {
    if (!ref::tally || batch == 0) return;
    for (const auto& support : o.supports)
      ref::tally->current().bytes_read +=
          bytes_a_pair * static_cast<std::uint64_t>(support->pairs());
  }
  T scale() const { return T(1 / std::sqrt(static_cast<double>(d))); }
  T kept(std::int64_t weight) const {
    const auto draw = o.first + static_cast<std::uint64_t>(weight);
    const double u = uniform_from_bits(draw_block(o.key, draw / 4)[draw % 4]);
    return T(u < o.dropout ? 0 : 1 / (1 - o.dropout));
  }
};

template <class T>
std::vector<T> norms(const SparseAttentionOptions& o, RefTensor<T>& k) {
  std::vector<T> half;
  for (std::int64_t j = 0; o.rbf && j < k.dim(0); ++j) {
    T sum(0);
    for (std::int64_t c = 0; c < k.dim(1); ++c) sum += k[j * k.dim(1) + c] * k[j * k.dim(1) + c];
    half.push_back(ref::once([&] { return sum * T(0.5); }));
  }
  return half;
}

template <class T>
void reference(const SparseAttention& op, RefIn<T> in, RefOut<T> out) {
  for (const char* name : {"softmax", "av", "qk"}) ref::part(name);
  const SparseReference<T> x(op.options, in[0]);
  x.count_lists(2);
  const std::vector<T> half_norms = norms(op.options, in[1]);
  x.for_each_row([&](std::int64_t row, const auto& pairs) {
    std::vector<T> a;
    ref::part("qk");
    for (std::int64_t c = 0; c < x.d; ++c) in[0][row + c];
    for (const auto& pair : pairs) {
      T s(0);
      for (std::int64_t c = 0; c < x.d; ++c) ref::mac(s, in[0][row + c], in[1][pair.key * x.d + c]);
      if (op.options.rbf) s = s - half_norms[pair.key];
      a.push_back(s * x.scale());
    }
    ref::part("softmax");
    ref::softmax(a);
    for (std::size_t p = 0; p < a.size(); ++p) {
      out[1][pairs[p].weight] = a[p];
      if (op.options.dropout > 0) a[p] = a[p] * x.kept(pairs[p].weight);
    }
    ref::part("av");
    for (std::int64_t c = 0; c < x.d; ++c) {
      T o(0);
      for (std::size_t p = 0; p < a.size(); ++p) ref::mac(o, a[p], in[2][pairs[p].key * x.d + c]);
      out[0][row + c] = o;
    }
  });
}

template <class T, class Pair>
void pair_gradient(const SparseAttentionBackward& op, const SparseReference<T>& x, RefIn<T> in,
                   RefOut<T> out, std::int64_t row, const Pair& pair, T delta,
                   std::vector<T>& column) {
  const std::int64_t key = pair.key * x.d;
  ref::part("av");
  T g(0);
  for (std::int64_t c = 0; c < x.d; ++c) ref::mac(g, in[0][row + c], in[5][key + c]);
  ref::part("softmax");
  T p = in[2][pair.weight], used = p;
  if (op.options.dropout > 0) {
    g = g * x.kept(pair.weight);
    used = used * x.kept(pair.weight);
  }
  const T ds = p * (g - delta) * x.scale();
  ref::part("av");
  for (std::int64_t c = 0; c < x.d; ++c) ref::mac(out[2][key + c], used, in[0][row + c]);
  ref::part("qk");
  for (std::int64_t c = 0; c < x.d; ++c) {
    ref::mac(out[0][row + c], ds, in[4][key + c]);
    ref::mac(out[1][key + c], ds, in[3][row + c]);
  }
  if (op.options.rbf) column[pair.key] += ds;
}

// in: do, o, weights, q, k, v
template <class T>
void reference(const SparseAttentionBackward& op, RefIn<T> in, RefOut<T> out) {
  for (const char* name : {"qk", "av", "softmax"}) ref::part(name);
  const SparseReference<T> x(op.options, in[3]);
  x.count_lists(8);
  for (std::size_t t = 0; t < 3; ++t) {
    ref::part(t == 2 ? "av" : "qk");
    for (std::int64_t i = 0; i < out[t].numel(); ++i) {
      out[t][i] = T(0);
      in[3 + t][i];
    }
  }
  std::vector<T> column(static_cast<std::size_t>(in[4].dim(0)), T(0));
  x.for_each_row([&](std::int64_t row, const auto& pairs) {
    ref::part("softmax");
    T delta(0);
    for (std::int64_t c = 0; c < x.d; ++c) delta += in[0][row + c] * in[1][row + c];
    for (const auto& pair : pairs) pair_gradient(op, x, in, out, row, pair, delta, column);
  });
  ref::part("qk");
  for (std::int64_t j = 0; op.options.rbf && j < in[4].dim(0); ++j)
    for (std::int64_t c = j * x.d; c < (j + 1) * x.d; ++c)
      out[1][c] = out[1][c] - column[j] * in[4][c];
}

}  // namespace hg::ops
