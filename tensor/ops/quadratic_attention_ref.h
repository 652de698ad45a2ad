#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "tensor/ops/quadratic_attention.h"
#include "tensor/random.h"
#include "tensor/reference.h"

namespace hg::ops {

// Index arithmetic, priors and scores of the query at work, for the forward and backward reference.
template <class T>
struct QuadraticReference {
  using Map = QuadraticOptions::Map;
  using Prior = QuadraticOptions::Prior;
  using Row = std::vector<T>;
  const QuadraticOptions o;
  RefIn<T> in;
  std::int64_t batch, n, m, d, width, components;
  std::int64_t b = 0, h = 0, i = 0;  // image, head and query at work

  QuadraticReference(const QuadraticOptions& options, RefIn<T> inputs) : o(options), in(inputs) {
    batch = in[0].dim(0), n = in[0].dim(1);
    m = o.apart ? in[1].dim(1) : n;
    width = in[0].dim(2) / (o.apart ? 1 : 3);
    d = width / o.heads;
    components = o.components();
  }
  // query(bias of the keys) for every query, and end_of_head() after those of an (image, head)
  void for_queries(auto query, auto end_of_head) {
    for (b = 0; b < batch; ++b)
      for (h = 0; h < o.heads; ++h) {
        const Row bias = key_bias();
        for (i = 0; i < n; ++i) query(bias);
        end_of_head();
      }
  }
  bool rbf() const { return o.score == QuadraticOptions::Score::rbf; }
  bool sparse() const { return o.map == Map::sparsemax || o.map == Map::entmax15; }
  bool has_prior() const { return o.prior != Prior::none; }
  std::int64_t visible() const { return o.causal ? i + 1 : m; }
  T scale(std::int64_t r) const { return T(1 / o.variance_of(static_cast<int>(r), d)); }
  Row zeros(std::int64_t count) const { return Row(static_cast<std::size_t>(count), T(0)); }
  std::int64_t row() const { return (b * o.heads + h) * n + i; }  // of [B, H, N]
  std::int64_t output(std::int64_t c) const { return output(i, c); }
  std::int64_t output(std::int64_t token, std::int64_t c) const {
    return (b * n + token) * width + h * d + c;
  }

  // Which tensor, laid out like the inputs, holds q (0), v (2) or the keys of component r (3 + r),
  // and where in it channel c of token j begins.
  std::size_t tensor(std::int64_t which) const {
    const std::int64_t extra = which < 3 ? -1 : which - 3 - (o.replace_keys ? 0 : 1);
    if (extra >= 0) return static_cast<std::size_t>(o.base_inputs() + extra);
    return o.apart ? static_cast<std::size_t>(which >= 3 ? 1 : which) : 0;
  }
  std::int64_t at(std::int64_t which, std::int64_t j, std::int64_t c) const {
    const bool extra = which >= 3 && (o.replace_keys || which > 3);
    const std::int64_t part = which >= 3 ? 1 : which, length = which == 0 ? n : m;
    if (extra || o.apart) return (b * length + j) * width + h * d + c;
    return (b * n + j) * 3 * width + part * width + h * d + c;
  }
  T& element(std::int64_t which, std::int64_t j, std::int64_t c) {
    return in[tensor(which)][at(which, j, c)];
  }

  // Touched once as a whole, like the kernel's tables.
  void touch_prior() {
    ref::part("weights");
    for (RefTensor<T>& t : in.subspan(static_cast<std::size_t>(o.prior_input())))
      for (std::int64_t j = 0; j < t.numel(); ++j)
        if (t.holds_integers())
          t.integer(j);
        else
          t[j];
  }
  std::int64_t position(std::int64_t token) {
    if (!o.ids) return token;
    auto& ids = in[o.prior_input() + 1];
    return ids.integer(ids.shape().rank() == 2 ? b * ids.dim(1) + token : token);
  }
  std::int64_t query_position() {
    return o.query_ids ? in[o.inputs() - 1].integer(b * n + i) : position(i);
  }
  std::int64_t prior_at(std::int64_t j, std::int64_t r) {
    const Shape& p = in[o.prior_input()].shape();
    const auto index = [&](int axis, std::int64_t k) { return p[axis] == 1 ? 0 : k; };
    const std::int64_t row = index(0, h) * p[1] + index(1, query_position());
    return (row * p[2] + index(2, position(j))) * p[3] + r;
  }
  T prior(std::int64_t j, std::int64_t r) {
    if (!has_prior()) return T(1);
    const T p = in[o.prior_input()][prior_at(j, r)];
    return o.prior == Prior::clipped ? ref::min(T(std::abs(double(p))), T(1)) : p;
  }
  double largest_prior() {  // of the keys that the query sees or not; 1 without priors
    double largest = has_prior() ? 0 : 1;
    for (std::int64_t r = 0; r < components && has_prior(); ++r)
      for (std::int64_t j = 0; j < m; ++j)
        largest = std::max(largest, double(ref::once([&] { return prior(j, r); })));
    return largest;
  }

  // |x|^2 / 2 of q or a key
  T half_norm(std::int64_t which, std::int64_t j) {
    T sum(0);
    for (std::int64_t c = 0; c < d; ++c) sum += element(which, j, c) * element(which, j, c);
    return T(0.5 * double(sum));
  }
  // [R m] of one (image, head)
  Row key_bias() {
    ref::part("qk");
    Row bias;
    for (std::int64_t r = 0; r < components; ++r)
      for (std::int64_t j = 0; j < m; ++j) {
        const double variance = o.variance_of(static_cast<int>(r), d);
        const T norm = rbf() ? half_norm(3 + r, j) : T(0);
        const double lift =
            o.norm_const ? -0.5 * static_cast<double>(d) * std::log(variance) * variance : 0;
        bias.push_back(T(lift - double(norm)));
      }
    return bias;
  }
  // q.k + bias, [R m]
  Row scores(const Row& bias) {
    ref::part("qk");
    Row row;
    for (std::int64_t r = 0; r < components; ++r)
      for (std::int64_t j = 0; j < m; ++j) {
        T s(0);
        for (std::int64_t c = 0; c < d; ++c) ref::mac(s, element(0, i, c), element(3 + r, j, c));
        row.push_back(rbf() || o.norm_const ? s + bias[row.size()] : s);
      }
    return row;
  }
  T query_norm() { return o.keeps_query_norm(d) ? half_norm(0, i) : T(0); }
  // scale (q.k + bias - |q|^2 / 2)
  T logit(std::int64_t r, const T& score, const T& norm) const {
    return (o.keeps_query_norm(d) ? score - norm : score) * scale(r);
  }
  T kept(std::int64_t j) const {
    const auto draw = o.first + static_cast<std::uint64_t>(row() * m + j);
    const double u = uniform_from_bits(draw_block(o.key, draw / 4)[draw % 4]);
    return T(u < o.dropout ? 0 : 1 / (1 - o.dropout));
  }
  void drop(Row& a) const {
    for (std::int64_t j = 0; o.dropout > 0 && j < m; ++j) a[j] = a[j] * kept(j);
  }
};

template <class T>
struct QuadraticForwardReference {
  using Row = std::vector<T>;
  QuadraticReference<T> x;
  RefOut<T> out;

  void query(const Row& bias) {
    using Map = QuadraticOptions::Map;
    Row logits = x.scores(bias);
    const T norm = x.query_norm();
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = r * x.m; j < r * x.m + x.visible(); ++j)
        logits[j] = x.logit(r, logits[j], norm);
    ref::part("weights");
    T& statistic = out[1][x.row()];
    Row a;
    if (x.o.map == Map::softmax) {
      a = softmax(logits, statistic);
      if (x.o.responsibilities) add_shares(logits, out[2]);
    } else if (x.o.map == Map::best) {
      a = best(logits, statistic);
    } else {
      const auto levels = std::bit_width(static_cast<std::uint64_t>(x.m - 1));
      for (std::int64_t k = 0; k < x.m * static_cast<std::int64_t>(levels); ++k)
        (void)(T(0) < T(1));  // the sort
      a = x.o.map == Map::sparsemax ? sparsemax(logits, statistic) : entmax15(logits, statistic);
    }
    if (x.o.spread != QuadraticOptions::Spread::none)
      out[x.o.spread_output()][x.row()] = spread(x.o, a);
    x.drop(a);
    ref::part("av");
    for (std::int64_t c = 0; c < x.d; ++c) {
      T o(0);
      for (std::int64_t j = 0; j < x.m; ++j) ref::mac(o, a[j], x.element(2, j, c));
      out[0][x.output(c)] = o;
    }
  }

  static T spread(const QuadraticOptions& o, const Row& a) {
    using Spread = QuadraticOptions::Spread;
    T sum(0);
    for (const T& w : a) {
      if (o.spread == Spread::entropy)
        sum -= w * ref::log(T(double(w) > 0 ? double(w) : 1));
      else if (o.spread == Spread::squares)
        sum += w * w;
      else if (w < T(QuadraticOptions::kSmall / static_cast<double>(a.size())))
        sum = T(double(sum) + 1);
    }
    return sum;
  }

  // a_ij = sum_r p_ijr e^l_ijr / (the sum over j and r)
  Row softmax(const Row& logits, T& statistic) {
    const std::int64_t seen = x.visible();
    Row e(logits), a = x.zeros(x.m);
    T top(-std::numeric_limits<double>::infinity()), sum(0);
    double largest = x.has_prior() ? 0 : 1;
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < seen; ++j) top = ref::max(top, logits[r * x.m + j]);
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < seen; ++j) {
        T& value = e[r * x.m + j];
        value = ref::exp(value - top);
        if (x.has_prior()) {
          const T p = x.prior(j, r);
          largest = std::max(largest, double(p));
          value = value * p;
        }
        sum += value;
        a[j] = r == 0 ? value : a[j] + value;
      }
    for (std::int64_t j = 0; j < seen; ++j) a[j] = a[j] / sum;
    // Without a likelihood the statistic is of priors whose largest is 1.
    const double lift = x.o.likelihood ? 0 : std::log(largest);
    statistic = T(double(top) + std::log(double(sum)) - lift);
    return a;
  }

  // p_jr e^l_jr / (the sum over r)
  void add_shares(const Row& logits, RefTensor<T>& shares) {
    for (std::int64_t j = 0; j < x.m; ++j) {
      T top(-std::numeric_limits<double>::infinity()), sum(0);
      Row e;
      for (std::int64_t r = 0; r < x.components; ++r) top = ref::max(top, logits[r * x.m + j]);
      for (std::int64_t r = 0; r < x.components; ++r) {
        e.push_back(ref::exp(logits[r * x.m + j] - top));
        if (x.has_prior()) e.back() = e.back() * x.prior(j, r);
        sum += e.back();
      }
      for (std::int64_t r = 0; r < x.components; ++r)
        shares[((x.b * x.o.heads + x.h) * x.m + j) * x.components + r] += e[r] / sum;
    }
  }

  Row best(const Row& logits, T& statistic) const {
    Row a(logits.begin(), logits.begin() + x.m);
    for (std::int64_t r = 1; r < x.components; ++r)
      for (std::int64_t j = 0; j < x.m; ++j) a[j] = ref::max(a[j], logits[r * x.m + j]);
    statistic = ref::softmax(a);
    return a;
  }

  static Row sorted(Row z) {
    std::sort(z.begin(), z.end(), [](const T& p, const T& q) { return double(p) > double(q); });
    return z;
  }

  static Row sparsemax(const Row& z, T& threshold) {
    T sum(0), k(0);
    for (const T& s : sorted(z)) {
      sum += s;
      k = T(double(k) + 1);
      if (T(1) + k * s > sum) threshold = T((double(sum) - 1) / double(k));
    }
    Row a;
    for (const T& s : z) a.push_back(ref::max(s - threshold, T(0)));
    return a;
  }

  static Row entmax15(const Row& z, T& threshold) {
    T top(-std::numeric_limits<double>::infinity()), sum(0), squares(0), k(0), t(0);
    Row x;
    for (const T& s : z) top = ref::max(top, s);
    for (const T& s : z) x.push_back((s - top) * T(0.5));
    for (const T& s : sorted(x)) {
      sum += s;
      squares += s * s;
      k = T(double(k) + 1);
      const T mean = sum / k, spread = k * (squares / k - mean * mean);
      const T candidate = mean - ref::sqrt(ref::max(T(0), (T(1) - spread) / k));
      if (!(candidate > s)) t = candidate;
    }
    Row a;
    for (const T& s : x) {
      const T u = ref::max(s - t, T(0));
      a.push_back(u * u);
    }
    threshold = T(double(t) + double(top) / 2);
    return a;
  }
};

template <class T>
void reference(const QuadraticAttention& op, RefIn<T> in, RefOut<T> out) {
  for (const char* name : {"qk", "weights", "av"}) ref::part(name);
  QuadraticForwardReference<T> call{{op.options, in}, out};
  call.x.touch_prior();
  for (std::int64_t i = 0; op.options.responsibilities && i < out[2].numel(); ++i) out[2][i] = T(0);
  call.x.for_queries([&](const auto& bias) { call.query(bias); }, [] {});
}

template <class T>
struct QuadraticBackwardReference {
  using Row = std::vector<T>;
  QuadraticReference<T> x;
  RefIn<T> before;  // do, o, lse, dlse
  RefOut<T> out;
  bool wants_prior;
  Row key_sums = x.zeros(x.components * x.m);  // of ds, over the queries so far
  // Of the query at work: q.k + bias, |q|^2 / 2, the weights' gradients, the weights, and the
  // scores' gradients.
  Row scores{}, g{}, a{}, ds{};
  T norm{};

  T& grad(std::int64_t which, std::int64_t j, std::int64_t c) {
    return out[x.tensor(which)][x.at(which, j, c)];
  }
  T& grad_o(std::int64_t c) { return before[0][x.output(c)]; }
  T& statistic(std::size_t which) { return before[which][x.row()]; }

  void clear() {
    for (std::size_t t = 0; t < out.size(); ++t)
      for (std::int64_t j = 0; j < out[t].numel(); ++j) {
        const bool is_v = x.o.apart ? t == 2 : t == 0 && j / x.width % 3 == 2;
        const bool is_prior = wants_prior && t + 1 == out.size();
        ref::part(is_prior ? "weights" : is_v ? "av" : "qk");
        out[t][j] = T(0);
      }
  }

  void query(const Row& bias) {
    ref::part("weights");
    for (std::int64_t c = 0; c < x.d; ++c) grad_o(c);
    scores = x.scores(bias);
    norm = x.query_norm();
    ref::part("av");
    g = a = x.zeros(x.m), ds = x.zeros(x.components * x.m);
    for (std::int64_t j = 0; j < x.m; ++j)
      for (std::int64_t c = 0; c < x.d; ++c) ref::mac(g[j], grad_o(c), x.element(2, j, c));
    ref::part("weights");
    x.drop(g);
    const double more = x.o.spread_gradient() ? add_spread() : 0;
    if (x.sparse())
      sparse();
    else if (x.o.map == QuadraticOptions::Map::best)
      best(delta(more));
    else
      softmax(delta(more));
    x.drop(a);
    products();
    ref::part("qk");
    for (std::size_t j = 0; j < ds.size() && x.rbf(); ++j) key_sums[j] += ds[j];
    if (!x.o.keeps_query_norm(x.d)) return;
    T sum(0);
    for (const T& s : ds) sum += s;
    for (std::int64_t c = 0; c < x.d; ++c) grad(0, x.i, c) -= sum * x.element(0, x.i, c);
  }

  // do.o, less the likelihood's gradient
  T delta(double more) {
    T sum(0);
    for (std::int64_t c = 0; c < x.d; ++c) sum += grad_o(c) * before[1][x.output(c)];
    return T(double(sum) - (x.o.likelihood ? double(statistic(3)) : 0) + more);
  }

  // g += e df/da of f the entropy or the sum of squares of the weights; returns e sum a df/da, by
  // the value of f that was given.
  double add_spread() {
    const bool entropy = x.o.spread == QuadraticOptions::Spread::entropy;
    const std::size_t first = x.o.likelihood ? 4 : 3;
    const double value = double(statistic(first));
    const T e = statistic(first + 1);
    const Row w = weights();
    for (std::int64_t j = 0; j < x.m; ++j) {
      if (entropy)
        g[j] = g[j] - e * (ref::log(T(double(w[j]) > 0 ? double(w[j]) : 1)) + T(1));
      else
        g[j] = g[j] + T(2 * double(e)) * w[j];
    }
    return double(e) * (entropy ? value - 1 : 2 * value);
  }

  // exp(logit - lse) without its prior; `largest` is that of the query's priors.
  T unweighted(std::int64_t j, std::int64_t r, double largest) {
    const T lse(double(statistic(2)) + double(x.scale(r)) * double(norm) +
                (x.o.likelihood ? 0 : std::log(largest)));
    return ref::exp(scores[r * x.m + j] * x.scale(r) - lse);
  }

  Row weights() {
    using Map = QuadraticOptions::Map;
    const double largest = x.largest_prior();
    const T given = statistic(2);
    Row w = x.zeros(x.m);
    for (std::int64_t j = 0; j < x.visible(); ++j) {
      if (x.o.map == Map::sparsemax) {
        w[j] = ref::max(scores[j] * x.scale(0) - given, T(0));
      } else if (x.o.map == Map::entmax15) {
        const T u = ref::max(scores[j] * x.scale(0) * T(0.5) - given, T(0));
        w[j] = u * u;
      } else if (x.o.map == Map::best) {
        for (std::int64_t r = 0; r < x.components; ++r) {
          const T logit = x.logit(r, scores[r * x.m + j], norm);
          w[j] = r == 0 ? logit : ref::max(w[j], logit);
        }
        w[j] = ref::exp(w[j] - given);
      } else {
        for (std::int64_t r = 0; r < x.components; ++r) {
          T p = unweighted(j, r, largest);
          if (x.has_prior()) p = p * x.prior(j, r);
          w[j] = r == 0 ? p : w[j] + p;
        }
      }
    }
    return w;
  }

  // p = prior exp(logit - lse); a prior's gradient is exp(logit - lse) (g - delta)
  void softmax(const T& delta) {
    const double largest = x.largest_prior();
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < x.visible(); ++j) {
        T p = unweighted(j, r, largest);
        if (wants_prior) {
          // the reciprocal of the largest prior, which the kernel undoes
          const T e = p * T(1);
          out[out.size() - 1][x.prior_at(j, r)] += e * (g[j] - delta);
        }
        if (x.has_prior()) p = p * x.prior(j, r);
        a[j] = r == 0 ? p : a[j] + p;
        ds[r * x.m + j] = p * (g[j] - delta) * x.scale(r);
      }
  }

  void best(const T& delta) {
    for (std::int64_t j = 0; j < x.m; ++j) {
      std::int64_t winner = 0;
      T top = x.logit(0, scores[j], norm);
      for (std::int64_t r = 1; r < x.components; ++r) {
        const T logit = x.logit(r, scores[r * x.m + j], norm);
        if (logit > top) top = logit, winner = r;
      }
      a[j] = ref::exp(top - statistic(2));
      ds[winner * x.m + j] = a[j] * (g[j] - delta) * x.scale(winner);
    }
  }

  void sparse() {
    const T threshold = statistic(2);
    Row u;
    T sum(0), dot(0);
    for (std::int64_t j = 0; j < x.m; ++j) {
      const T z = scores[j] * x.scale(0);
      if (x.o.map == QuadraticOptions::Map::sparsemax) {
        a[j] = ref::max(z - threshold, T(0));
        u.push_back(a[j] > T(0) ? T(1) : T(0));
      } else {
        u.push_back(ref::max(z * T(0.5) - threshold, T(0)));
        a[j] = u[j] * u[j];
      }
      dot += u[j] * g[j];
      sum += u[j];
    }
    const T mean(double(dot) / double(sum));
    for (std::int64_t j = 0; j < x.m; ++j) ds[j] = u[j] * (g[j] - mean) * x.scale(0);
  }

  void products() {
    ref::part("av");
    for (std::int64_t j = 0; j < x.m; ++j)
      for (std::int64_t c = 0; c < x.d; ++c) ref::mac(grad(2, j, c), a[j], grad_o(c));
    ref::part("qk");
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < x.m; ++j)
        for (std::int64_t c = 0; c < x.d; ++c) {
          ref::mac(grad(0, x.i, c), ds[r * x.m + j], x.element(3 + r, j, c));
          ref::mac(grad(3 + r, j, c), ds[r * x.m + j], x.element(0, x.i, c));
        }
  }

  // What the keys' norms add to their gradients.
  void end_of_head() {
    ref::part("qk");
    for (std::int64_t r = 0; r < x.components && x.rbf(); ++r)
      for (std::int64_t j = 0; j < x.m; ++j)
        for (std::int64_t c = 0; c < x.d; ++c)
          grad(3 + r, j, c) -= key_sums[r * x.m + j] * x.element(3 + r, j, c);
    std::fill(key_sums.begin(), key_sums.end(), T(0));
  }

  void finish_prior() {
    ref::part("weights");
    RefTensor<T>& table = out[out.size() - 1];
    if (table.dim(1) == 1)  // sums of heads go into one table
      for (std::int64_t k = 0; k < x.batch * x.o.heads * x.m * x.components; ++k)
        (void)(T(0) + T(0));
    if (x.o.prior != QuadraticOptions::Prior::clipped) return;
    for (std::int64_t k = 0; k < table.numel(); ++k) {
      const double p = double(x.in[x.o.prior_input()][k]);
      table[k] = table[k] * T(std::abs(p) < 1 ? (p > 0) - (p < 0) : 0);
    }
  }
};

template <class T>
void reference(const QuadraticAttentionBackward& op, RefIn<T> in, RefOut<T> out) {
  const auto before = static_cast<std::size_t>(op.before());
  QuadraticBackwardReference<T> call{
      {op.options, in.subspan(before)}, in.first(before), out, op.wants_prior};
  for (const char* name : {"qk", "weights", "av"}) ref::part(name);
  call.x.touch_prior();
  call.clear();
  call.x.for_queries([&](const auto& bias) { call.query(bias); }, [&] { call.end_of_head(); });
  if (op.wants_prior) call.finish_prior();
}

}  // namespace hg::ops
