#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "tensor/ops/quadratic_attention.h"
#include "tensor/random.h"
#include "tensor/reference.h"

namespace hg {

// Index arithmetic, priors and scores that forward and backward references share.
template <class T>
struct QuadraticReference {
  using Map = QuadraticOptions::Map;
  using Prior = QuadraticOptions::Prior;
  using Row = std::vector<T>;
  const QuadraticOptions& o;
  RefIn<T> in;
  std::int64_t batch, n, m, d, width, components;

  QuadraticReference(const QuadraticOptions& options, RefIn<T> inputs) : o(options), in(inputs) {
    batch = in[0].dim(0), n = in[0].dim(1);
    m = o.apart ? in[1].dim(1) : n;
    width = in[0].dim(2) / (o.apart ? 1 : 3);
    d = width / o.heads;
    components = o.components();
  }
  bool rbf() const { return o.score == QuadraticOptions::Score::rbf; }
  bool sparse() const { return o.map == Map::sparsemax || o.map == Map::entmax15; }
  std::int64_t visible(std::int64_t i) const { return o.causal ? i + 1 : m; }
  T scale(std::int64_t r) const { return T(1 / o.variance_of(static_cast<int>(r), d)); }

  // Which tensor, laid out like the inputs, holds q (0), v (2) or the keys of component r (3 + r),
  // and where in it token j, head h begin.
  std::size_t tensor(std::int64_t which) const {
    const std::int64_t extra = which < 3 ? -1 : which - 3 - (o.replace_keys ? 0 : 1);
    if (extra >= 0) return static_cast<std::size_t>(o.base_inputs() + extra);
    return o.apart ? static_cast<std::size_t>(which >= 3 ? 1 : which) : 0;
  }
  std::int64_t at(std::int64_t which, std::int64_t b, std::int64_t h, std::int64_t j) const {
    const bool extra = which >= 3 && (o.replace_keys || which > 3);
    const std::int64_t part = which >= 3 ? 1 : which, length = which == 0 ? n : m;
    if (extra || o.apart) return (b * length + j) * width + h * d;
    return (b * n + j) * 3 * width + part * width + h * d;
  }
  T& element(std::int64_t which, std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t c) {
    return in[tensor(which)][at(which, b, h, j) + c];
  }

  // Touched once as a whole, like the kernel's tables.
  void touch_prior() {
    ref::part("weights");
    for (std::size_t i = static_cast<std::size_t>(o.prior_input()); i < in.size(); ++i)
      for (std::int64_t j = 0; j < in[i].numel(); ++j)
        if (in[i].holds_integers())
          in[i].integer(j);
        else
          in[i][j];
  }
  std::int64_t position(std::int64_t b, std::int64_t token) {
    if (!o.ids) return token;
    auto& ids = in[static_cast<std::size_t>(o.prior_input() + 1)];
    return ids.integer(ids.shape().rank() == 2 ? b * ids.dim(1) + token : token);
  }
  std::int64_t query_position(std::int64_t b, std::int64_t i) {
    if (!o.query_ids) return position(b, i);
    return in[static_cast<std::size_t>(o.inputs() - 1)].integer(b * n + i);
  }
  std::int64_t prior_at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j,
                        std::int64_t r) {
    const Shape& p = in[static_cast<std::size_t>(o.prior_input())].shape();
    const auto index = [&](int axis, std::int64_t k) { return p[axis] == 1 ? 0 : k; };
    return ((index(0, h) * p[1] + index(1, query_position(b, i))) * p[2] +
            index(2, position(b, j))) *
               p[3] +
           r;
  }
  T prior(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t r) {
    if (o.prior == Prior::none) return T(1);
    const T p = in[static_cast<std::size_t>(o.prior_input())][prior_at(b, h, i, j, r)];
    return o.prior == Prior::clipped ? ref::min(T(std::abs(double(p))), T(1)) : p;
  }

  // |x|^2 / 2 of q or a key
  T half_norm(std::int64_t which, std::int64_t b, std::int64_t h, std::int64_t j) {
    T sum(0);
    for (std::int64_t c = 0; c < d; ++c) {
      const T x = element(which, b, h, j, c);
      sum += x * x;
    }
    const ref::PerRow once;
    return sum * T(0.5);
  }
  // [R m] of one (image, head)
  Row key_bias(std::int64_t b, std::int64_t h) {
    ref::part("qk");
    Row bias;
    for (std::int64_t r = 0; r < components; ++r)
      for (std::int64_t j = 0; j < m; ++j) {
        const double variance = o.variance_of(static_cast<int>(r), d);
        const T norm = rbf() ? half_norm(3 + r, b, h, j) : T(0);
        const double lift =
            o.norm_const ? -0.5 * static_cast<double>(d) * std::log(variance) * variance : 0;
        bias.push_back(T(lift - double(norm)));
      }
    return bias;
  }
  // q.k + bias of query i, [R m]
  Row scores(const Row& bias, std::int64_t b, std::int64_t h, std::int64_t i) {
    ref::part("qk");
    Row row;
    for (std::int64_t r = 0; r < components; ++r)
      for (std::int64_t j = 0; j < m; ++j) {
        T s(0);
        for (std::int64_t c = 0; c < d; ++c)
          ref::mac(s, element(0, b, h, i, c), element(3 + r, b, h, j, c));
        row.push_back(rbf() || o.norm_const ? s + bias[row.size()] : s);
      }
    return row;
  }
  // scale (q.k + bias - |q|^2 / 2); what query i does not see is left out
  Row logits(Row row, std::int64_t b, std::int64_t h, std::int64_t i) {
    const T norm = o.keeps_query_norm(d) ? half_norm(0, b, h, i) : T(0);
    for (std::int64_t r = 0; r < components; ++r)
      for (std::int64_t j = 0; j < visible(i); ++j) {
        T& s = row[r * m + j];
        if (o.keeps_query_norm(d)) s = s - norm;
        s = s * scale(r);
      }
    return row;
  }
  T kept(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const auto draw = o.first + static_cast<std::uint64_t>(((b * o.heads + h) * n + i) * m + j);
    const double u = uniform_from_bits(draw_block(o.key, draw / 4)[draw % 4]);
    return T(u < o.dropout ? 0 : 1 / (1 - o.dropout));
  }
};

template <>
struct Reference<ops::QuadraticAttention> {
  template <class T>
  static void run(const ops::QuadraticAttention& op, RefIn<T> in, RefOut<T> out) {
    for (const char* name : {"qk", "weights", "av"}) ref::part(name);
    QuadraticReference<T> x(op.options, in);
    x.touch_prior();
    if (op.options.responsibilities) {
      ref::part("weights");
      for (std::int64_t i = 0; i < out[2].numel(); ++i) out[2][i] = T(0);
    }
    for (std::int64_t b = 0; b < x.batch; ++b)
      for (std::int64_t h = 0; h < x.o.heads; ++h) {
        const std::vector<T> bias = x.key_bias(b, h);
        for (std::int64_t i = 0; i < x.n; ++i) row(x, bias, b, h, i, out);
      }
  }

  template <class T>
  static void row(QuadraticReference<T>& x, const std::vector<T>& bias, std::int64_t b,
                  std::int64_t h, std::int64_t i, RefOut<T> out) {
    using Map = QuadraticOptions::Map;
    const std::vector<T> logits = x.logits(x.scores(bias, b, h, i), b, h, i);
    ref::part("weights");
    T& statistic = out[1][(b * x.o.heads + h) * x.n + i];
    std::vector<T> a;
    if (x.o.map == Map::softmax) {
      a = softmax(x, logits, b, h, i, statistic);
      if (x.o.responsibilities) shares(x, logits, b, h, i, out[2]);
    } else if (x.o.map == Map::best) {
      a = best(x, logits, statistic);
    } else {
      const auto levels = std::bit_width(static_cast<std::uint64_t>(x.m - 1));
      for (std::int64_t k = 0; k < x.m * static_cast<std::int64_t>(levels); ++k)
        (void)(T(0) < T(1));  // the sort
      a = x.o.map == Map::sparsemax ? sparsemax(logits, statistic) : entmax15(logits, statistic);
    }
    if (x.o.spread != QuadraticOptions::Spread::none)
      out[static_cast<std::size_t>(x.o.spread_output())][(b * x.o.heads + h) * x.n + i] =
          spread(x.o, a);
    if (x.o.dropout > 0)
      for (std::int64_t j = 0; j < x.m; ++j) a[j] = a[j] * x.kept(b, h, i, j);
    ref::part("av");
    for (std::int64_t c = 0; c < x.d; ++c) {
      T o(0);
      for (std::int64_t j = 0; j < x.m; ++j) ref::mac(o, a[j], x.element(2, b, h, j, c));
      out[0][(b * x.n + i) * x.width + h * x.d + c] = o;
    }
  }

  template <class T>
  static T spread(const QuadraticOptions& o, const std::vector<T>& a) {
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
  template <class T>
  static std::vector<T> softmax(QuadraticReference<T>& x, const std::vector<T>& logits,
                                std::int64_t b, std::int64_t h, std::int64_t i, T& statistic) {
    const std::int64_t seen = x.visible(i);
    std::vector<T> e(logits), a(static_cast<std::size_t>(x.m), T(0));
    T top(-std::numeric_limits<double>::infinity()), sum(0);
    double largest = 0;
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < seen; ++j) top = ref::max(top, logits[r * x.m + j]);
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < seen; ++j) {
        T& value = e[r * x.m + j];
        value = ref::exp(value - top);
        if (x.o.prior != QuadraticOptions::Prior::none) {
          const T p = x.prior(b, h, i, j, r);
          largest = std::max(largest, double(p));
          value = value * p;
        }
        sum += value;
        a[j] = r == 0 ? value : a[j] + value;
      }
    for (std::int64_t j = 0; j < seen; ++j) a[j] = a[j] / sum;
    // Without a likelihood the statistic is of priors whose largest is 1.
    const bool rescaled = x.o.prior != QuadraticOptions::Prior::none && !x.o.likelihood;
    statistic = T(double(top) + std::log(double(sum)) - (rescaled ? std::log(largest) : 0));
    return a;
  }

  // p_jr e^l_jr / (the sum over r)
  template <class T>
  static void shares(QuadraticReference<T>& x, const std::vector<T>& logits, std::int64_t b,
                     std::int64_t h, std::int64_t i, RefTensor<T>& out) {
    const bool prior = x.o.prior != QuadraticOptions::Prior::none;
    for (std::int64_t j = 0; j < x.m; ++j) {
      T top(-std::numeric_limits<double>::infinity()), sum(0);
      std::vector<T> e;
      for (std::int64_t r = 0; r < x.components; ++r) top = ref::max(top, logits[r * x.m + j]);
      for (std::int64_t r = 0; r < x.components; ++r) {
        e.push_back(ref::exp(logits[r * x.m + j] - top));
        if (prior) e.back() = e.back() * x.prior(b, h, i, j, r);
        sum += e.back();
      }
      for (std::int64_t r = 0; r < x.components; ++r)
        out[((b * x.o.heads + h) * x.m + j) * x.components + r] += e[r] / sum;
    }
  }

  template <class T>
  static std::vector<T> best(QuadraticReference<T>& x, const std::vector<T>& logits, T& statistic) {
    std::vector<T> a(logits.begin(), logits.begin() + x.m);
    for (std::int64_t r = 1; r < x.components; ++r)
      for (std::int64_t j = 0; j < x.m; ++j) a[j] = ref::max(a[j], logits[r * x.m + j]);
    T top(-std::numeric_limits<double>::infinity()), sum(0);
    for (const T& l : a) top = ref::max(top, l);
    for (T& l : a) l = ref::exp(l - top);
    for (const T& l : a) sum += l;
    for (T& l : a) l = l / sum;
    statistic = T(double(top) + std::log(double(sum)));
    return a;
  }

  template <class T>
  static std::vector<T> sorted(const std::vector<T>& z) {
    std::vector<T> s(z);
    std::sort(s.begin(), s.end(), [](const T& p, const T& q) { return double(p) > double(q); });
    return s;
  }

  template <class T>
  static std::vector<T> sparsemax(const std::vector<T>& z, T& threshold) {
    T sum(0), k(0);
    for (const T& s : sorted(z)) {
      sum += s;
      {
        const ref::PerRow once;
        k += T(1);
      }
      if (T(1) + k * s > sum) {
        const ref::PerRow once;
        threshold = (sum - T(1)) / k;
      }
    }
    std::vector<T> a;
    for (const T& s : z) a.push_back(ref::max(s - threshold, T(0)));
    return a;
  }

  template <class T>
  static std::vector<T> entmax15(const std::vector<T>& z, T& threshold) {
    T top(-std::numeric_limits<double>::infinity()), sum(0), squares(0), k(0), t(0);
    std::vector<T> x;
    for (const T& s : z) top = ref::max(top, s);
    for (const T& s : z) x.push_back((s - top) * T(0.5));
    for (const T& s : sorted(x)) {
      sum += s;
      squares += s * s;
      {
        const ref::PerRow once;
        k += T(1);
      }
      const T mean = sum / k, spread = k * (squares / k - mean * mean);
      const T candidate = mean - ref::sqrt(ref::max(T(0), (T(1) - spread) / k));
      if (!(candidate > s)) t = candidate;
    }
    std::vector<T> a;
    for (const T& s : x) {
      const T u = ref::max(s - t, T(0));
      a.push_back(u * u);
    }
    threshold = T(double(t) + double(top) / 2);
    return a;
  }
};

template <>
struct Reference<ops::QuadraticAttentionBackward> {
  template <class T>
  struct Call {
    QuadraticReference<T> x;
    RefIn<T> before;  // do, o, lse, dlse
    RefOut<T> out;
    bool wants_prior;

    T& grad(std::int64_t which, std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t c) {
      return out[x.tensor(which)][x.at(which, b, h, j) + c];
    }
    T& row(std::size_t i, std::int64_t b, std::int64_t h, std::int64_t token, std::int64_t c) {
      return before[i][(b * x.n + token) * x.width + h * x.d + c];
    }
    T& statistic(std::size_t i, std::int64_t b, std::int64_t h, std::int64_t token) {
      return before[i][(b * x.o.heads + h) * x.n + token];
    }
  };

  template <class T>
  static void run(const ops::QuadraticAttentionBackward& op, RefIn<T> in, RefOut<T> out) {
    const auto before = static_cast<std::size_t>(op.before());
    Call<T> call{{op.options, in.subspan(before)}, in.first(before), out, op.wants_prior};
    QuadraticReference<T>& x = call.x;
    for (const char* name : {"qk", "weights", "av"}) ref::part(name);
    x.touch_prior();
    clear(call);
    for (std::int64_t b = 0; b < x.batch; ++b)
      for (std::int64_t h = 0; h < x.o.heads; ++h) head(call, b, h);
    if (!op.wants_prior) return;
    ref::part("weights");
    RefTensor<T>& table = out[out.size() - 1];
    if (table.dim(1) == 1)  // sums of heads go into one table
      for (std::int64_t i = 0; i < x.batch * x.o.heads * x.m * x.components; ++i)
        (void)(T(0) + T(0));
    if (x.o.prior != QuadraticOptions::Prior::clipped) return;
    for (std::int64_t i = 0; i < table.numel(); ++i) {
      const double p = double(x.in[static_cast<std::size_t>(x.o.prior_input())][i]);
      table[i] = table[i] * T(std::abs(p) < 1 ? (p > 0) - (p < 0) : 0);
    }
  }

  template <class T>
  static void clear(Call<T>& call) {
    const QuadraticReference<T>& x = call.x;
    for (std::size_t i = 0; i < call.out.size(); ++i)
      for (std::int64_t j = 0; j < call.out[i].numel(); ++j) {
        const bool is_v = x.o.apart ? i == 2 : i == 0 && j / x.width % 3 == 2;
        const bool is_prior = call.wants_prior && i + 1 == call.out.size();
        ref::part(is_prior ? "weights" : is_v ? "av" : "qk");
        call.out[i][j] = T(0);
      }
  }

  template <class T>
  static void head(Call<T>& call, std::int64_t b, std::int64_t h) {
    QuadraticReference<T>& x = call.x;
    const std::vector<T> bias = x.key_bias(b, h);
    std::vector<T> key_sums(static_cast<std::size_t>(x.components * x.m), T(0));
    for (std::int64_t i = 0; i < x.n; ++i) query(call, bias, b, h, i, key_sums);
    ref::part("qk");
    for (std::int64_t r = 0; r < x.components && x.rbf(); ++r)
      for (std::int64_t j = 0; j < x.m; ++j)
        for (std::int64_t c = 0; c < x.d; ++c)
          call.grad(3 + r, b, h, j, c) -= key_sums[r * x.m + j] * x.element(3 + r, b, h, j, c);
  }

  template <class T>
  static void query(Call<T>& call, const std::vector<T>& bias, std::int64_t b, std::int64_t h,
                    std::int64_t i, std::vector<T>& key_sums) {
    QuadraticReference<T>& x = call.x;
    ref::part("weights");
    for (std::int64_t c = 0; c < x.d; ++c) call.row(0, b, h, i, c);
    const std::vector<T> scores = x.scores(bias, b, h, i);
    const T norm = x.o.keeps_query_norm(x.d) ? x.half_norm(0, b, h, i) : T(0);
    ref::part("av");
    std::vector<T> g(static_cast<std::size_t>(x.m), T(0)), a(g);
    for (std::int64_t j = 0; j < x.m; ++j)
      for (std::int64_t c = 0; c < x.d; ++c)
        ref::mac(g[j], call.row(0, b, h, i, c), x.element(2, b, h, j, c));
    ref::part("weights");
    if (x.o.dropout > 0)
      for (std::int64_t j = 0; j < x.m; ++j) g[j] = g[j] * x.kept(b, h, i, j);
    std::vector<T> ds(static_cast<std::size_t>(x.components * x.m), T(0));
    const T more = x.o.spread_gradient() ? spread(call, b, h, i, scores, norm, g) : T(0);
    if (x.sparse()) {
      sparse(call, b, h, i, scores, g, a, ds);
    } else {
      T delta(0);
      for (std::int64_t c = 0; c < x.d; ++c)
        delta += call.row(0, b, h, i, c) * call.row(1, b, h, i, c);
      if (x.o.likelihood) delta = T(double(delta) - double(call.statistic(3, b, h, i)));
      delta = T(double(delta) + double(more));
      if (x.o.map == QuadraticOptions::Map::best)
        best(call, b, h, i, scores, norm, delta, g, a, ds);
      else
        softmax(call, b, h, i, scores, norm, delta, g, a, ds);
    }
    if (x.o.dropout > 0)
      for (std::int64_t j = 0; j < x.m; ++j) a[j] = a[j] * x.kept(b, h, i, j);
    products(call, b, h, i, a, ds);
    ref::part("qk");
    for (std::size_t j = 0; j < ds.size() && x.rbf(); ++j) key_sums[j] += ds[j];
    if (!x.o.keeps_query_norm(x.d)) return;
    T sum(0);
    for (const T& s : ds) sum += s;
    for (std::int64_t c = 0; c < x.d; ++c)
      call.grad(0, b, h, i, c) -= sum * x.element(0, b, h, i, c);
  }

  // g += e df/da of f the entropy or the sum of squares of the weights; returns e sum a df/da, by
  // the value of f that was given.
  template <class T>
  static T spread(Call<T>& call, std::int64_t b, std::int64_t h, std::int64_t i,
                  const std::vector<T>& scores, const T& norm, std::vector<T>& g) {
    QuadraticReference<T>& x = call.x;
    const bool entropy = x.o.spread == QuadraticOptions::Spread::entropy;
    const std::size_t first = x.o.likelihood ? 4 : 3;
    const double value = double(call.statistic(first, b, h, i));
    const T e = call.statistic(first + 1, b, h, i);
    const std::vector<T> a = weights(call, b, h, i, scores, norm);
    for (std::int64_t j = 0; j < x.m; ++j) {
      if (entropy)
        g[j] = g[j] - e * (ref::log(T(double(a[j]) > 0 ? double(a[j]) : 1)) + T(1));
      else
        g[j] = g[j] + T(2 * double(e)) * a[j];
    }
    return T(double(e) * (entropy ? value - 1 : 2 * value));
  }

  template <class T>
  static std::vector<T> weights(Call<T>& call, std::int64_t b, std::int64_t h, std::int64_t i,
                                const std::vector<T>& scores, const T& norm) {
    using Map = QuadraticOptions::Map;
    QuadraticReference<T>& x = call.x;
    const bool prior = x.o.prior != QuadraticOptions::Prior::none;
    const double given = double(call.statistic(2, b, h, i));
    std::vector<T> a(static_cast<std::size_t>(x.m), T(0));
    double largest = prior ? 0 : 1;
    for (std::int64_t r = 0; r < x.components && prior; ++r)
      for (std::int64_t j = 0; j < x.m; ++j) {
        const ref::PerRow once;
        largest = std::max(largest, double(x.prior(b, h, i, j, r)));
      }
    for (std::int64_t j = 0; j < x.visible(i); ++j) {
      if (x.o.map == Map::sparsemax) {
        a[j] = ref::max(scores[j] * x.scale(0) - T(given), T(0));
      } else if (x.o.map == Map::entmax15) {
        const T u = ref::max(scores[j] * x.scale(0) * T(0.5) - T(given), T(0));
        a[j] = u * u;
      } else if (x.o.map == Map::best) {
        for (std::int64_t r = 0; r < x.components; ++r) {
          const T logit =
              (x.o.keeps_query_norm(x.d) ? scores[r * x.m + j] - norm : scores[r * x.m + j]) *
              x.scale(r);
          a[j] = r == 0 ? logit : ref::max(a[j], logit);
        }
        a[j] = ref::exp(a[j] - T(given));
      } else {
        for (std::int64_t r = 0; r < x.components; ++r) {
          const T lse(given + double(x.scale(r)) * double(norm) +
                      (x.o.likelihood ? 0 : std::log(largest)));
          T p = ref::exp(scores[r * x.m + j] * x.scale(r) - lse);
          if (prior) p = p * x.prior(b, h, i, j, r);
          a[j] = r == 0 ? p : a[j] + p;
        }
      }
    }
    return a;
  }

  // p = prior exp(logit - lse); a prior's gradient is exp(logit - lse) (g - delta)
  template <class T>
  static void softmax(Call<T>& call, std::int64_t b, std::int64_t h, std::int64_t i,
                      const std::vector<T>& scores, const T& norm, const T& delta,
                      const std::vector<T>& g, std::vector<T>& a, std::vector<T>& ds) {
    QuadraticReference<T>& x = call.x;
    const bool prior = x.o.prior != QuadraticOptions::Prior::none;
    double largest = 0;
    for (std::int64_t r = 0; r < x.components && prior; ++r)
      for (std::int64_t j = 0; j < x.m; ++j) {
        const ref::PerRow once;
        largest = std::max(largest, double(x.prior(b, h, i, j, r)));
      }
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < x.visible(i); ++j) {
        const double given = double(call.statistic(2, b, h, i));
        const T lse(given + double(x.scale(r)) * double(norm) +
                    (prior && !x.o.likelihood ? std::log(largest) : 0));
        T p = ref::exp(scores[r * x.m + j] * x.scale(r) - lse);
        if (call.wants_prior) {
          // the reciprocal of the largest prior, which the kernel undoes
          const T e = p * T(1);
          call.out[call.out.size() - 1][x.prior_at(b, h, i, j, r)] += e * (g[j] - delta);
        }
        if (prior) p = p * x.prior(b, h, i, j, r);
        a[j] = r == 0 ? p : a[j] + p;
        ds[r * x.m + j] = p * (g[j] - delta) * x.scale(r);
      }
  }

  template <class T>
  static void best(Call<T>& call, std::int64_t b, std::int64_t h, std::int64_t i,
                   const std::vector<T>& scores, const T& norm, const T& delta,
                   const std::vector<T>& g, std::vector<T>& a, std::vector<T>& ds) {
    QuadraticReference<T>& x = call.x;
    for (std::int64_t j = 0; j < x.m; ++j) {
      std::int64_t winner = 0;
      T top(0);
      for (std::int64_t r = 0; r < x.components; ++r) {
        const T centred =
            x.o.keeps_query_norm(x.d) ? scores[r * x.m + j] - norm : scores[r * x.m + j];
        const T logit = centred * x.scale(r);
        if (r == 0) {
          top = logit;
        } else if (logit > top) {
          top = logit;
          winner = r;
        }
      }
      a[j] = ref::exp(top - call.statistic(2, b, h, i));
      ds[winner * x.m + j] = a[j] * (g[j] - delta) * x.scale(winner);
    }
  }

  template <class T>
  static void sparse(Call<T>& call, std::int64_t b, std::int64_t h, std::int64_t i,
                     const std::vector<T>& scores, const std::vector<T>& g, std::vector<T>& a,
                     std::vector<T>& ds) {
    QuadraticReference<T>& x = call.x;
    const T threshold = call.statistic(2, b, h, i);
    std::vector<T> u;
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

  template <class T>
  static void products(Call<T>& call, std::int64_t b, std::int64_t h, std::int64_t i,
                       const std::vector<T>& a, const std::vector<T>& ds) {
    QuadraticReference<T>& x = call.x;
    ref::part("av");
    for (std::int64_t j = 0; j < x.m; ++j)
      for (std::int64_t c = 0; c < x.d; ++c)
        ref::mac(call.grad(2, b, h, j, c), a[j], call.row(0, b, h, i, c));
    ref::part("qk");
    for (std::int64_t r = 0; r < x.components; ++r)
      for (std::int64_t j = 0; j < x.m; ++j)
        for (std::int64_t c = 0; c < x.d; ++c) {
          ref::mac(call.grad(0, b, h, i, c), ds[r * x.m + j], x.element(3 + r, b, h, j, c));
          ref::mac(call.grad(3 + r, b, h, j, c), ds[r * x.m + j], x.element(0, b, h, i, c));
        }
  }
};

}  // namespace hg
