// Backward kernel of quadratic attention: see tensor/ops/quadratic_attention.h. With weights a_ijr,
// g_ij = do_i . v_j and d_i = do_i . o_i - dlse_i the gradient of a logit is a_ijr (g_ij - d_i);
// scores are formed again.
#pragma once

#include "tensor/ops/attention/quadratic_forward.h"

namespace hg::cpu {

template <class T>
struct QuadraticBackward {
  using P = Packet<T>;
  using Map = QuadraticOptions::Map;
  QuadraticCall<T> call;
  TokenHeads<T> o, grad_o, dq, dv, dk[QuadraticOptions::kMostComponents];
  const T* lse;
  const T* grad_lse;              // or null
  T* grad_prior;                  // of the whole table, where priors depend on the query, or null
  const T *spread, *grad_spread;  // or null

  // Buffers of one (image, head).
  struct Work {
    Scratch<T> keys_t, keys, values_t, bias, prior, scores, weights, grads, key_sums, mask, line,
        packed;
    T* prior_sums;  // [row()], summed over queries; or null
    explicit Work(const QuadraticSizes& s, const QuadraticCall<T>& call, T* prior_sums)
        : keys_t(s.components * call.packed_keys()),
          keys(s.components * packed_size<T>(s.d, s.m)),
          values_t(call.packed_keys()),
          bias(call.row()),
          prior(call.row()),
          scores(s.block_rows() * call.row()),
          weights(s.block_rows() * call.stride),
          grads(s.block_rows() * call.stride),
          key_sums(call.row()),
          mask(s.m),
          line(call.stride),
          packed(gemm_scratch<T>(s.d, s.block_rows())),
          prior_sums(prior_sums) {}
  };

  void operator()(std::int64_t b, std::int64_t h, T* prior_sums) const {
    const QuadraticSizes& s = call.s;
    const Work work(s, call, prior_sums);
    prepare(b, h, work);
    const PriorRow<T> common =
        call.prior_per_query() ? PriorRow<T>{} : call.prior_row(b, h, 0, work.prior);
    const std::int64_t step = s.block_rows();
    for (std::int64_t i = 0; i < s.n; i += step) {
      const std::int64_t rows = std::min(step, s.n - i);
      call.score_block(b, h, i, rows, work.keys_t, work.bias, work.scores);
      gemm_packed<T>(rows, call.stride, s.d, grad_o.matrix(b, h, i), work.values_t, work.grads,
                     call.stride);
      for (std::int64_t r = 0; r < rows; ++r) {
        const PriorRow<T> prior =
            call.prior_per_query() ? call.prior_row(b, h, i + r, work.prior) : common;
        row(b, h, i + r, prior, work, r);
      }
      products(b, h, i, rows, work);
      if (call.query_norm) pull_queries(b, h, i, rows, work.scores);
    }
    if (call.o.score == QuadraticOptions::Score::rbf) pull_keys(b, h, work.key_sums);
  }

 private:
  void prepare(std::int64_t b, std::int64_t h, const Work& work) const {
    const QuadraticSizes& s = call.s;
    call.pack_keys(b, h, work.keys_t);
    for (std::int64_t r = 0; r < s.components; ++r)
      pack_b<T>(s.d, s.m, call.k[r].matrix(b, h), work.keys + r * packed_size<T>(s.d, s.m));
    pack_b<T>(s.m, s.d, call.v.matrix(b, h).transposed(), work.values_t);
    if (call.has_bias()) call.key_bias(b, h, work.bias);
    std::fill_n(static_cast<T*>(work.key_sums), call.row(), T{0});
    if (work.prior_sums) std::fill_n(work.prior_sums, s.row(), T{0});
  }

  // Scores of query i -> gradients of its scores q.k; grads g -> as they are; weights.
  void row(std::int64_t b, std::int64_t h, std::int64_t i, const PriorRow<T>& prior,
           const Work& work, std::int64_t r) const {
    const QuadraticSizes& s = call.s;
    T *scores = work.scores + r * call.row(), *g = work.grads + r * call.stride,
      *a = work.weights + r * call.stride;
    const std::int64_t at = (b * s.heads + h) * s.n + i;
    if (prior.largest == 0) {
      std::fill_n(scores, call.row(), T{0});
      std::fill_n(a, s.m, T{0});
      return;
    }
    const bool dropping = call.o.dropout > 0;
    if (dropping) {
      std::fill_n(static_cast<T*>(work.mask), s.m, T{1});
      drop<T>(DropRule{call.o.key, call.o.dropout},
              call.o.first + static_cast<std::uint64_t>(at * s.m), s.m, work.mask, work.mask);
      multiply_row<T>(s.m, work.mask, g);
    }
    const T query = call.half_query_norm(b, h, i);
    const bool sparse = call.o.map == Map::sparsemax || call.o.map == Map::entmax15;
    T shared = sparse ? T{0} : delta(b, h, i);
    if (grad_spread) {
      weights_of(at, call.visible(i), prior, query, scores, a, work.line);
      shared += add_spread(spread[at], grad_spread[at], a, g);
    }
    if (call.o.map == Map::softmax)
      softmax_row(b, h, i, prior, query, shared, scores, g, a, work);
    else if (call.o.map == Map::best)
      best_row(lse[at], shared, query, scores, g, a);
    else
      sparse_row(lse[at], scores, g, a);
    if (dropping) multiply_row<T>(s.m, work.mask, a);
    if (call.o.score == QuadraticOptions::Score::rbf) add_row<T>(call.row(), scores, work.key_sums);
  }

  T delta(std::int64_t b, std::int64_t h, std::int64_t i) const {
    const T sum = dot<T>(call.s.d, grad_o.at(b, h) + i * grad_o.row, o.at(b, h) + i * o.row);
    return grad_lse ? sum - grad_lse[(b * call.s.heads + h) * call.s.n + i] : sum;
  }

  // exp(logit - lse) of component r, without the prior, of q.k
  ScaledExp<T> weight_of(std::int64_t at, const PriorRow<T>& prior, T query, std::int64_t r) const {
    T statistic = lse[at];
    if (call.o.likelihood) statistic -= std::log(prior.largest);
    return {call.scale[r], statistic + call.scale[r] * query};
  }
  void exponentiate(std::int64_t at, std::int64_t visible, const PriorRow<T>& prior, T query,
                    std::int64_t r, const T* scores, T* part) const {
    const ScaledExp<T> weight = weight_of(at, prior, query, r);
    map([&](auto x) { return weight(x); }, visible, part, scores);
    std::fill(part + visible, part + call.s.m, T{0});
    if (prior.weights && prior.has_zeros) clear_hidden(prior.weights + r * call.stride, part);
  }

  // The weights of a query, its scores left as they are.
  void weights_of(std::int64_t at, std::int64_t visible, const PriorRow<T>& prior, T query,
                  const T* scores, T* a, T* line) const {
    const std::int64_t m = call.s.m;
    if (call.o.map == Map::best) {
      QuadraticForward<T>::best_logits(call, query, scores, a);
      const P shift = ei::pset1<P>(lse[at]);
      return map([&](auto x) { return vexp(ei::psub(x, shift)); }, m, a, a);
    }
    if (call.o.map != Map::softmax) {
      scale_row(m, call.scale[0], scores, line);
      if (call.o.map == Map::sparsemax) return sparsemax_weights(m, lse[at], line, a);
      entmax15_roots(m, lse[at], line, line);
      return map([](auto x) { return ei::pmul(x, x); }, m, a, line);
    }
    for (std::int64_t r = 0; r < call.s.components; ++r) {
      T* const part = r == 0 ? a : line;
      exponentiate(at, visible, prior, query, r, scores + r * call.stride, part);
      if (prior.weights) multiply_row<T>(m, prior.weights + r * call.stride, part);
      if (r > 0) add_row<T>(m, part, a);
    }
  }

  // g += e df(a) of f the entropy, - sum a ln a, or the sum of squares; returns e sum a df(a).
  T add_spread(T value, T e, const T* a, T* g) const {
    if (call.o.spread == QuadraticOptions::Spread::entropy) {
      const P factor = ei::pset1<P>(-e), one = splat<P>(1.0);
      map([&](auto y, auto w) { return ei::pmadd(factor, ei::padd(log_or_zero(w), one), y); },
          call.s.m, g, g, a);
      return e * (value - 1);
    }
    add_scaled(call.s.m, 2 * e, a, g);
    return 2 * e * value;
  }

  // For each component e = exp(logit - lse) and w = e prior: a += w; scores -> w (g - d) scale; and
  // for its prior p in line e (g - d) / largest, the division of priors undone. What comes of the
  // padding is 0.
  void softmax_row(std::int64_t b, std::int64_t h, std::int64_t i, const PriorRow<T>& prior,
                   T query, T delta, T* scores, const T* g, T* a, const Work& work) const {
    const std::int64_t at = (b * call.s.heads + h) * call.s.n + i, visible = call.visible(i);
    const P shared = ei::pset1<P>(delta), inverse = ei::pset1<P>(1 / prior.largest);
    for (std::int64_t r = 0; r < call.s.components; ++r) {
      T* const part = scores + r * call.stride;
      const T* const priors = prior.weights ? prior.weights + r * call.stride : nullptr;
      const ScaledExp<T> weight = weight_of(at, prior, query, r);
      const P scale = ei::pset1<P>(call.scale[r]);
      for (std::int64_t j = 0; j < call.stride; j += kLanes<T>) {
        P w = padded<T>(weight(ei::ploadu<P>(part + j)), visible - j);
        const P y = ei::psub(ei::ploadu<P>(g + j), shared);
        if (priors) {
          const P p = ei::ploadu<P>(priors + j);
          w = ei::pselect(ei::pcmp_lt(splat<P>(0.0), p), w, splat<P>(0.0));
          ei::pstoreu(work.line + j, ei::pmul(ei::pmul(w, inverse), y));
          w = ei::pmul(w, p);
        }
        ei::pstoreu(a + j, r == 0 ? w : ei::padd(w, ei::ploadu<P>(a + j)));
        ei::pstoreu(part + j, ei::pmul(ei::pmul(y, w), scale));
      }
      if (priors && (work.prior_sums || grad_prior)) add_to_prior(b, h, i, r, work);
    }
  }
  void add_to_prior(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t r,
                    const Work& work) const {
    const std::int64_t m = call.s.m;
    if (work.prior_sums) return add_row<T>(m, work.line, work.prior_sums + r * m);
    call.add_to_prior(b, h, i, r, work.line, grad_prior);
  }
  void clear_hidden(const T* weights, T* part) const {
    map([](auto x, auto w) { return ei::pselect(ei::pcmp_lt(splat<P>(0.0), w), x, splat<P>(0.0)); },
        call.s.m, part, part, weights);
  }
  // The winning component has the whole gradient; of equals the first one.
  void best_row(T statistic, T shared, T query, T* scores, const T* g, T* a) const {
    const std::int64_t m = call.s.m;
    QuadraticForward<T>::best_logits(call, query, scores, a);
    for (std::int64_t j = 0; j < m; ++j) {
      bool found = false;
      const T weight = std::exp(a[j] - statistic);
      for (std::int64_t r = 0; r < call.s.components; ++r) {
        T& score = scores[r * call.stride + j];
        const bool wins = !found && call.scale[r] * (score - query) == a[j];
        found |= wins;
        score = wins ? weight * (g[j] - shared) * call.scale[r] : T{0};
      }
      a[j] = weight;
    }
  }

  // sparsemax: g - mean of g on the support; entmax15 with u = sqrt(a): u g - u (sum u g / sum u)
  void sparse_row(T threshold, T* scores, const T* g, T* a) const {
    const std::int64_t m = call.s.m;
    const P scale = ei::pset1<P>(call.scale[0]);
    scale_row(m, call.scale[0], scores, scores);
    const bool sparsemax = call.o.map == Map::sparsemax;
    T* const u = scores;  // 1 on the support, or the root of the weight
    if (sparsemax) {
      sparsemax_weights(m, threshold, scores, a);
      map(
          [](auto x) {
            return ei::pselect(ei::pcmp_lt(splat<P>(0.0), x), splat<P>(1.0), splat<P>(0.0));
          },
          m, u, a);
    } else {
      entmax15_roots(m, threshold, scores, u);
      map([](auto x) { return ei::pmul(x, x); }, m, a, u);
    }
    const P shared = ei::pset1<P>(dot(m, u, g) / row_sum(m, u));
    map([&](auto x, auto y) { return ei::pmul(ei::pmul(ei::psub(y, shared), x), scale); }, m,
        scores, u, g);
  }

  void products(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t rows,
                const Work& work) const {
    const QuadraticSizes& s = call.s;
    const Epilogue<T> add{.accumulate = i > 0};
    const Matrix<T> weights_t{work.weights, 1, call.stride};
    gemm_serial<T>(s.m, s.d, rows, weights_t, grad_o.matrix(b, h, i), dv.at(b, h), dv.row,
                   work.packed, add);
    for (std::int64_t r = 0; r < s.components; ++r) {
      const Matrix<T> ds{work.scores + r * call.stride, call.row(), 1};
      gemm_serial<T>(s.m, s.d, rows, ds.transposed(), call.q.matrix(b, h, i), dk[r].at(b, h),
                     dk[r].row, work.packed, add);
      gemm_packed<T>(rows, s.d, s.m, ds, work.keys + r * packed_size<T>(s.d, s.m),
                     dq.at(b, h) + i * dq.row, dq.row, {.accumulate = r > 0});
    }
  }

  // The part of - |q|^2 / 2 and - |k|^2 / 2 in the scores.
  void pull_queries(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t rows,
                    const T* scores) const {
    for (std::int64_t r = 0; r < rows; ++r)
      add_scaled<T>(call.s.d, -row_sum(call.row(), scores + r * call.row()),
                    call.q.at(b, h) + (i + r) * call.q.row, dq.at(b, h) + (i + r) * dq.row);
  }
  void pull_keys(std::int64_t b, std::int64_t h, const T* sums) const {
    for (std::int64_t r = 0; r < call.s.components; ++r)
      for (std::int64_t j = 0; j < call.s.m; ++j)
        add_scaled<T>(call.s.d, -sums[r * call.stride + j], call.k[r].at(b, h) + j * call.k[r].row,
                      dk[r].at(b, h) + j * dk[r].row);
  }
};

}  // namespace hg::cpu
