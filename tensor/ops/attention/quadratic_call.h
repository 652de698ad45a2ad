// The operands of one call of quadratic attention, and what its forward and backward kernels share:
// where heads lie, scores of a block of rows, priors of a row.
#pragma once

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/scratch.h"
#include "tensor/ops/attention/quadratic_operands.h"

namespace hg::cpu {

// ln x, and 0 for 0: x ln x is then 0 there.
template <class P>
EIGEN_ALWAYS_INLINE P log_or_zero(P x) {
  const auto positive = ei::pcmp_lt(splat<P>(0.0), x);
  return ei::pselect(positive, vlog(ei::pselect(positive, x, splat<P>(1.0))), splat<P>(0.0));
}

// Priors of one row of scores, divided by the largest: a row may be rescaled, and equal priors
// become 1, which leaves every bit of softmax as it is.
template <class T>
struct PriorRow {
  const T* weights = nullptr;  // none: all 1
  T largest = 1;               // before the division; 0: the row is empty
  bool has_zeros = false;
};

template <class T>
struct QuadraticCall {
  using P = Packet<T>;
  QuadraticOptions o;
  QuadraticSizes s;
  TokenHeads<T> q, v, k[QuadraticOptions::kMostComponents];
  PriorTable<T> prior;
  T scale[QuadraticOptions::kMostComponents];  // logit = scale (q.k + bias - |q|^2 / 2)
  bool query_norm;
  // Scores and priors of a component: padded to whole packets by zeros, so that few loops have a
  // tail.
  std::int64_t stride;
  const PriorRow<T>* shared_rows = nullptr;  // of each head and query, see SharedPriors

  QuadraticCall(const QuadraticOptions& options, In in)
      : o(options),
        s(o, in),
        q(base_operand<T>(o, in, 0)),
        v(base_operand<T>(o, in, 2)),
        prior(o, in),
        query_norm(o.keeps_query_norm(s.d)),
        stride(padded_size<T>(s.m)) {
    for (int r = 0; r < s.components; ++r) {
      k[r] = key_operand<T>(o, in, r);
      scale[r] = static_cast<T>(1 / o.variance_of(r, s.d));
    }
  }

  std::int64_t row() const { return s.components * stride; }  // scores of one query, or priors

  bool has_bias() const { return o.score == QuadraticOptions::Score::rbf || o.norm_const; }
  // bias[r stride + j] = - |k_jr|^2 / 2, and the normaliser's logarithm over the scale
  void key_bias(std::int64_t b, std::int64_t h, T* bias) const {
    for (std::int64_t r = 0; r < s.components; ++r) {
      const double variance = o.variance_of(static_cast<int>(r), s.d);
      const T lift =
          o.norm_const
              ? static_cast<T>(-0.5 * static_cast<double>(s.d) * std::log(variance) * variance)
              : T{0};
      for (std::int64_t j = 0; j < s.m; ++j)
        bias[r * stride + j] = lift - (o.score == QuadraticOptions::Score::rbf
                                           ? half_norm(k[r].at(b, h) + j * k[r].row)
                                           : T{0});
      std::fill(bias + r * stride + s.m, bias + (r + 1) * stride, T{0});
    }
  }
  T half_norm(const T* x) const {
    return T{0.5} * row_sum([](auto a) { return ei::pmul(a, a); }, s.d, x);
  }
  T half_query_norm(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return query_norm ? half_norm(q.at(b, h) + i * q.row) : T{0};
  }

  std::int64_t packed_keys() const { return packed_size<T>(s.m, s.d); }
  void pack_keys(std::int64_t b, std::int64_t h, T* packed) const {
    for (std::int64_t r = 0; r < s.components; ++r)
      pack_b<T>(s.m, s.d, k[r].matrix(b, h).transposed(), packed + r * packed_keys());
  }
  // scores[rows][r stride + j] = q.k_jr + bias, for queries i..
  void score_block(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t rows,
                   const T* packed, const T* bias, T* scores) const {
    for (std::int64_t r = 0; r < s.components; ++r) {
      Epilogue<T> epilogue;
      if (has_bias()) epilogue.bias = bias + r * stride;
      gemm_packed<T>(rows, stride, s.d, q.matrix(b, h, i), packed + r * packed_keys(),
                     scores + r * stride, row(), epilogue);
    }
  }
  std::int64_t visible(std::int64_t i) const { return o.causal ? std::min(s.m, i + 1) : s.m; }

  // table += the gradients [m] of the priors of query i and component r
  void add_to_prior(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t r, const T* grads,
                    T* table) const {
    if (prior.in_order()) return add_row<T>(s.m, grads, table + prior.index(b, h, i, 0, r));
    for (std::int64_t j = 0; j < s.m; ++j) table[prior.index(b, h, i, j, r)] += grads[j];
  }

  bool prior_per_query() const { return prior.query != 0; }
  // Query i's priors, into buffer[row()] unless images share them.
  PriorRow<T> prior_row(std::int64_t b, std::int64_t h, std::int64_t i, T* buffer) const {
    if (!prior.data) return {};
    if (shared_rows) return shared_rows[h * s.n + i];
    for (std::int64_t r = 0; r < s.components; ++r) {
      const T* const first =
          prior.data + prior.index(b, h, i, 0, r) - prior.position(b, 0) * prior.key;
      T* const to = buffer + r * stride;
      if (prior.ids)
        for (std::int64_t j = 0; j < s.m; ++j) to[j] = first[prior.position(b, j) * prior.key];
      else if (prior.key == 1)
        std::copy_n(first, s.m, to);
      else
        for (std::int64_t j = 0; j < s.m; ++j) to[j] = first[j * prior.key];
      std::fill(to + s.m, to + stride, T{0});
    }
    const std::int64_t n = row();
    if (o.prior == QuadraticOptions::Prior::clipped)
      map([](auto x) { return ei::pmin(ei::pabs(x), splat<P>(1.0)); }, n, buffer, buffer);
    const T largest = row_max_of_numbers(n, buffer);
    if (largest == 0) return {buffer, largest, true};
    // A product may miss the 1 of the largest by a bit; a division takes ten times as long.
    const P top = ei::pset1<P>(largest), inverse = ei::pset1<P>(1 / largest);
    const P one = splat<P>(1.0), zero = splat<P>(0.0);
    map([&](auto x) { return ei::pselect(ei::pcmp_eq(x, top), one, P(ei::pmul(x, inverse))); }, n,
        buffer, buffer);
    const T zeros =
        row_sum([&](auto x) { return ei::pselect(ei::pcmp_eq(x, zero), one, zero); }, n, buffer);
    return {buffer, largest, zeros > static_cast<T>(row() - s.row())};
  }
};

// While it lives, a call whose priors are of pairs and the same in all images has their rows from
// here, made once instead of once an image.
template <class T>
class SharedPriors {
 public:
  explicit SharedPriors(QuadraticCall<T>& call)
      : weights_(is_for(call) ? call.s.heads * call.s.n * call.row() : 0) {
    if (!is_for(call)) return;
    const std::int64_t n = call.s.n, rows = call.s.heads * n;
    rows_.resize(static_cast<std::size_t>(rows));
    parallel_each(rows, row_grain(call.row()), [&](std::int64_t i) {
      rows_[i] = call.prior_row(0, i / n, i % n, weights_ + i * call.row());
    });
    call.shared_rows = rows_.data();
  }

 private:
  static bool is_for(const QuadraticCall<T>& call) {
    return call.prior_per_query() && !call.prior.ids && !call.prior.query_ids && call.s.batch > 1;
  }
  Scratch<T> weights_;
  CachedVector<PriorRow<T>> rows_;
};

}  // namespace hg::cpu
