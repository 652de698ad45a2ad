// Forward kernel of quadratic attention: see tensor/ops/quadratic_attention.h.
#pragma once

#include "tensor/cpu/drop.h"
#include "tensor/ops/attention/quadratic_call.h"
#include "tensor/ops/attention/sparse_maps.h"

namespace hg::cpu {

template <class T>
struct QuadraticForward {
  using P = Packet<T>;
  using Map = QuadraticOptions::Map;
  QuadraticCall<T> call;
  TokenHeads<T> out;
  T* lse;
  T* responsibilities;  // or null
  T* spread;            // or null

  // Buffers of one (image, head).
  struct Work {
    Scratch<T> keys, values, bias, prior, scores, shares, parts, ones;
    explicit Work(const QuadraticCall<T>& call, const QuadraticSizes& s, bool with_shares)
        : keys(s.components * call.packed_keys()),
          values(packed_size<T>(s.d, s.m)),
          bias(call.row()),
          prior(call.row()),
          scores(s.block_rows() * call.row()),
          shares(with_shares ? s.row() : 0),
          parts(with_shares ? s.row() + 2 * s.m : 0),
          ones(with_shares ? s.m : 0) {
      if (!with_shares) return;
      std::fill_n(static_cast<T*>(shares), s.row(), T{0});
      std::fill_n(static_cast<T*>(ones), s.m, T{1});
    }
  };

  // Queries [begin, end) of one (image, head); the division by the sum is left to the output rows.
  void operator()(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) const {
    const QuadraticSizes& s = call.s;
    const Work work(call, s, responsibilities != nullptr);
    call.pack_keys(b, h, work.keys);
    pack_b<T>(s.d, s.m, call.v.matrix(b, h), work.values);
    if (call.has_bias()) call.key_bias(b, h, work.bias);
    const PriorRow<T> common =
        call.prior_per_query() ? PriorRow<T>{} : call.prior_row(b, h, 0, work.prior);
    const std::int64_t step = s.block_rows();
    for (std::int64_t i = begin; i < end; i += step) {
      const std::int64_t rows = std::min(step, end - i);
      T sums[kMostBlockRows];
      call.score_block(b, h, i, rows, work.keys, work.bias, work.scores);
      for (std::int64_t r = 0; r < rows; ++r) {
        const PriorRow<T> prior =
            call.prior_per_query() ? call.prior_row(b, h, i + r, work.prior) : common;
        sums[r] = weigh(b, h, i + r, prior, work.scores + r * call.row(), work);
      }
      T *const o = out.at(b, h) + i * out.row, *const statistics = statistic_of(b, h, i);
      map([](auto shift, auto sum) { return ei::padd(shift, vlog(sum)); }, rows, statistics,
          statistics, sums);
      gemm_packed<T>(rows, s.d, s.m, Matrix<T>{work.scores, call.row(), 1}, work.values, o,
                     out.row);
      for (std::int64_t r = 0; r < rows; ++r)
        scale_row<T>(s.d, T{1} / sums[r], o + r * out.row, o + r * out.row);
    }
    if (responsibilities) store_shares(b, h, work.shares);
  }

 private:
  T* statistic_of(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return lse + (b * call.s.heads + h) * call.s.n + i;
  }

  // Scores of query i -> weights times their sum, which is returned, in the first m places. The
  // statistic lacks the sum's logarithm.
  T weigh(std::int64_t b, std::int64_t h, std::int64_t i, const PriorRow<T>& prior, T* row,
          const Work& work) const {
    const QuadraticSizes& s = call.s;
    T& statistic = *statistic_of(b, h, i);
    const T query = call.half_query_norm(b, h, i);
    if (responsibilities) add_shares(prior, query, row, work);
    T sum = 1;
    if (prior.largest == 0) {
      std::fill_n(row, s.m, T{0});
      statistic = 0;
    } else if (call.o.map == Map::softmax) {
      sum = exponentiate(call.visible(i), prior, query, row, statistic);
    } else if (call.o.map == Map::best) {
      sum = exponentiate_best(query, row, statistic);
    } else {
      sparse(row, statistic);
    }
    if (spread) spread[(b * s.heads + h) * s.n + i] = spread_of(sum, row);
    if (call.o.dropout > 0)
      drop(DropRule{call.o.key, call.o.dropout},
           call.o.first + static_cast<std::uint64_t>(((b * s.heads + h) * s.n + i) * s.m), s.m, row,
           row);
    return sum;
  }

  // Of weights a = x / sum: - sum a ln a = ln sum - (sum x ln x) / sum, and so on.
  T spread_of(T sum, const T* x) const {
    using Spread = QuadraticOptions::Spread;
    const std::int64_t m = call.s.m;
    if (call.o.spread == Spread::entropy)
      return std::log(sum) -
             row_sum([](auto e) { return ei::pmul(e, log_or_zero(e)); }, m, x) / sum;
    if (call.o.spread == Spread::squares)
      return row_sum([](auto e) { return ei::pmul(e, e); }, m, x) / (sum * sum);
    const T small = sum * static_cast<T>(QuadraticOptions::kSmall) / static_cast<T>(m);
    return static_cast<T>(std::count_if(x, x + m, [&](T e) { return e < small; }));
  }

  T exponentiate(std::int64_t visible, const PriorRow<T>& prior, T query, T* row,
                 T& statistic) const {
    const std::int64_t m = call.s.m, components = call.s.components;
    T shift = -std::numeric_limits<T>::infinity(), sum = 0;
    for (std::int64_t r = 0; r < components; ++r) {
      T* const part = row + r * call.stride;
      if (prior.has_zeros) hide(prior.weights + r * call.stride, part);
      shift = std::max(shift, call.scale[r] * (row_max_of_numbers(visible, part) - query));
    }
    for (std::int64_t r = 0; r < components; ++r) {
      T* const part = row + r * call.stride;
      const T scale = call.scale[r], offset = shift + scale * query;
      sum += prior.weights
                 ? weighted_exp_sum(visible, scale, offset, prior.weights + r * call.stride, part)
                 : exp_sum(visible, part, scale, offset, part);
      std::fill(part + visible, part + m, T{0});
      if (r > 0) add_row<T>(m, part, row);
    }
    statistic = shift;
    if (call.o.likelihood) statistic += std::log(prior.largest);
    return sum;
  }
  // A key without prior must not set the row's maximum.
  void hide(const T* weights, T* part) const {
    const P lowest = ei::pset1<P>(-std::numeric_limits<T>::infinity());
    map([&](auto x, auto w) { return ei::pselect(ei::pcmp_lt(splat<P>(0.0), w), x, lowest); },
        call.s.m, part, part, weights);
  }
  static T weighted_exp_sum(std::int64_t n, T scale, T shift, const T* weights, T* x) {
    const ScaledExp<T> f(scale, shift);
    return map_sum([&](auto v, auto w) { return ei::pmul(w, f(v)); }, n, x, x, weights);
  }

  T exponentiate_best(T query, T* row, T& statistic) const {
    const std::int64_t m = call.s.m;
    best_logits(call, query, row, row);
    const T shift = row_max_of_numbers(m, row), sum = exp_sum(m, row, T{1}, shift, row);
    statistic = shift;
    return sum;
  }

  void sparse(T* row, T& statistic) const {
    const std::int64_t m = call.s.m;
    scale_row(m, call.scale[0], row, row);
    if (call.o.map == Map::sparsemax) {
      statistic = sparsemax_threshold(m, row);
      return sparsemax_weights(m, statistic, row, row);
    }
    statistic = entmax15_threshold(m, row);
    entmax15_roots(m, statistic, row, row);
    map([](auto u) { return ei::pmul(u, u); }, m, row, row);
  }

  // shares[r m + j] += w_jr exp(l_jr - l_j) / (its sum over r), l_j the key's largest logit: so no
  // pair is too far away to have shares.
  void add_shares(const PriorRow<T>& prior, T query, const T* row, const Work& work) const {
    const std::int64_t m = call.s.m, components = call.s.components;
    if (prior.largest == 0) return;
    T *const top = work.parts, *const sum = top + m, *const e = sum + m;
    const P zero = splat<P>(0.0), offset = ei::pset1<P>(query);
    std::fill_n(top, m, -std::numeric_limits<T>::infinity());
    std::fill_n(sum, m, T{0});
    const auto weight = [&](std::int64_t r) {
      return prior.weights ? prior.weights + r * call.stride : work.ones;
    };
    for (std::int64_t r = 0; r < components; ++r) {
      const P factor = ei::pset1<P>(call.scale[r]);
      map([&](auto x) { return ei::pmul(ei::psub(x, offset), factor); }, m, e + r * m,
          row + r * call.stride);
      map([&](auto t, auto x,
              auto w) { return ei::pselect(ei::pcmp_lt(zero, w), P(ei::pmax(t, x)), t); },
          m, top, top, e + r * m, weight(r));
    }
    for (std::int64_t r = 0; r < components; ++r) {
      map(
          [&](auto x, auto t, auto w) {
            return ei::pselect(ei::pcmp_lt(zero, w), P(ei::pmul(w, vexp(ei::psub(x, t)))), zero);
          },
          m, e + r * m, e + r * m, top, weight(r));
      map([](auto t, auto x) { return ei::padd(t, x); }, m, sum, sum, e + r * m);
    }
    for (std::int64_t r = 0; r < components; ++r)
      map(
          [&](auto t, auto x, auto total) {
            return ei::padd(t, ei::pselect(ei::pcmp_lt(zero, total), P(ei::pdiv(x, total)), zero));
          },
          m, work.shares + r * m, work.shares + r * m, e + r * m, sum);
  }
  // Component after component -> [m, R]
  void store_shares(std::int64_t b, std::int64_t h, const T* shares) const {
    const QuadraticSizes& s = call.s;
    T* const to = responsibilities + (b * s.heads + h) * s.row();
    for (std::int64_t j = 0; j < s.m; ++j)
      for (std::int64_t r = 0; r < s.components; ++r)
        to[j * s.components + r] = shares[r * s.m + j];
  }

 public:
  // to[j] = the largest of a key's logits
  static void best_logits(const QuadraticCall<T>& call, T query, const T* row, T* to) {
    const P offset = ei::pset1<P>(query);
    for (std::int64_t r = 0; r < call.s.components; ++r) {
      const P factor = ei::pset1<P>(call.scale[r]);
      const auto logit = [&](auto x) { return ei::pmul(ei::psub(x, offset), factor); };
      if (r == 0)
        map(logit, call.s.m, to, row);
      else
        map([&](auto a, auto x) { return ei::pmax(a, logit(x)); }, call.s.m, to, to,
            row + r * call.stride);
    }
  }
};

}  // namespace hg::cpu
