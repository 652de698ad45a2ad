#include "tensor/ops/key_update.h"

#include <cmath>

#include "tensor/ops/attention/quadratic_call.h"

namespace hg {

QuadraticOptions KeyUpdateOptions::scores(bool apart) const {
  QuadraticOptions scores;
  scores.heads = heads;
  scores.extra_keys = apart ? 1 : 0;
  scores.replace_keys = apart;
  scores.score = dot_scores ? QuadraticOptions::Score::dot : QuadraticOptions::Score::rbf;
  return scores;
}

namespace ops {
namespace {

template <class T>
struct Forward {
  cpu::QuadraticCall<T> call;
  TokenHeads<T> summed, prior_mean, kept, out;  // of keys: q, k0, the present keys, k'
  T *lse, *mass;
  T theta, factor;

  void operator()(std::int64_t b, std::int64_t h) const {
    const QuadraticSizes& s = call.s;
    const std::int64_t step = s.block_rows(), head = b * s.heads + h;
    const cpu::Scratch<T> keys(call.packed_keys()), bias(call.row()), scores(step * call.row()),
        packed(cpu::gemm_scratch<T>(s.d, step));
    T* const sums = mass + head * s.m;
    call.pack_keys(b, h, keys);
    if (call.has_bias()) call.key_bias(b, h, bias);
    std::fill_n(sums, s.m, T{0});
    for (std::int64_t i = 0; i < s.n; i += step) {
      const std::int64_t rows = std::min(step, s.n - i);
      call.score_block(b, h, i, rows, keys, bias, scores);
      for (std::int64_t r = 0; r < rows; ++r) {
        T* const row = scores + r * call.row();
        const T shift = call.scale[0] * cpu::row_max_of_numbers(s.m, row);
        const T sum = cpu::exp_sum(s.m, row, call.scale[0], shift, row);
        lse[head * s.n + i + r] = shift + std::log(sum);
        cpu::scale_row<T>(s.m, T{1} / sum, row, row);
        cpu::add_row<T>(s.m, row, sums);
      }
      cpu::gemm_serial<T>(s.m, s.d, rows, {scores, 1, call.row()}, summed.matrix(b, h, i),
                          out.at(b, h), out.row, packed, {.accumulate = i > 0});
    }
    for (std::int64_t j = 0; j < s.m; ++j) combine(b, h, j, sums[j]);
  }

  // out_j holds sum_i w_ij summed_i
  void combine(std::int64_t b, std::int64_t h, std::int64_t j, T sum) const {
    const std::int64_t d = call.s.d;
    T* const key = out.at(b, h) + j * out.row;
    const T precision = theta + factor * sum;
    if (precision == 0) {
      std::copy_n(kept.at(b, h) + j * kept.row, d, key);
      return;
    }
    const auto t = ei::pset1<cpu::Packet<T>>(theta), a = ei::pset1<cpu::Packet<T>>(factor),
               p = ei::pset1<cpu::Packet<T>>(precision);
    cpu::map([&](auto n, auto k0) { return ei::pdiv(ei::pmadd(a, n, ei::pmul(t, k0)), p); }, d, key,
             key, prior_mean.at(b, h) + j * prior_mean.row);
  }
};

template <class T>
struct Backward {
  cpu::QuadraticCall<T> call;
  TokenHeads<T> summed, out, grad_out, dsummed, dq, dmean, dk;  // dk: of the present keys
  const T *lse, *mass;
  T theta, factor;
  bool stop, values, own_keys;  // own_keys: the present keys are k0

  // dn_j = a dout_j / p_j, dc_j = - a dout_j.out_j / p_j, dmean = theta dout / p, p = theta + a c;
  // dsummed_i = sum_j w_ij dn_j, dw_ij = dn_j.summed_i + dc_j, and so on as in attention
  void operator()(std::int64_t b, std::int64_t h) const {
    const QuadraticSizes& s = call.s;
    const std::int64_t step = s.block_rows(), ld = call.row();
    const cpu::Scratch<T> keys_t(call.packed_keys()), keys(cpu::packed_size<T>(s.d, s.m)),
        dn(s.m * s.d), dn_t(call.packed_keys()), dn_packed(cpu::packed_size<T>(s.d, s.m)),
        dc(call.row()), bias(call.row()), w(step * call.row()), ds(step * call.row()), sums(s.m),
        grad(s.m * s.d), packed(cpu::gemm_scratch<T>(s.d, step));
    call.pack_keys(b, h, keys_t);
    if (call.has_bias()) call.key_bias(b, h, bias);
    std::fill_n(static_cast<T*>(dc), ld, T{0});
    quotient(b, h, dn, dc);
    cpu::pack_b<T>(s.d, s.m, {dn, s.d, 1}, dn_packed);
    if (!stop) {
      cpu::pack_b<T>(s.d, s.m, call.k[0].matrix(b, h), keys);
      cpu::pack_b<T>(s.m, s.d, cpu::Matrix<T>{dn, s.d, 1}.transposed(), dn_t);
    }
    std::fill_n(static_cast<T*>(sums), s.m, T{0});
    std::fill_n(static_cast<T*>(grad), s.m * s.d, T{0});
    for (std::int64_t i = 0; i < s.n; i += step) {
      const std::int64_t rows = std::min(step, s.n - i);
      const auto q = call.q.matrix(b, h, i);
      call.score_block(b, h, i, rows, keys_t, bias, w);
      if (!stop)
        cpu::gemm_packed<T>(rows, ld, s.d, summed.matrix(b, h, i), dn_t, ds, ld, {.bias = dc});
      for (std::int64_t r = 0; r < rows; ++r)
        weights_row(b, h, i + r, w + r * ld, stop ? nullptr : ds + r * ld, sums);
      cpu::gemm_packed<T>(rows, s.d, s.m, {w, ld, 1}, dn_packed, dsummed.at(b, h) + i * dsummed.row,
                          dsummed.row);
      if (stop) continue;
      cpu::gemm_packed<T>(rows, s.d, s.m, {ds, ld, 1}, keys, dq.at(b, h) + i * dq.row, dq.row,
                          {.accumulate = true});  // on what it has of the sums, or 0
      cpu::gemm_serial<T>(s.m, s.d, rows, {ds, 1, ld}, q, grad, s.d, packed, {.accumulate = true});
    }
    for (std::int64_t j = 0; j < s.m; ++j) store(b, h, j, grad + j * s.d, sums[j]);
  }

  T precision(std::int64_t head, std::int64_t j) const {
    return theta + factor * mass[head * call.s.m + j];
  }
  void quotient(std::int64_t b, std::int64_t h, T* dn, T* dc) const {
    const QuadraticSizes& s = call.s;
    for (std::int64_t j = 0; j < s.m; ++j) {
      const T* const dk = grad_out.at(b, h) + j * grad_out.row;
      const T p = precision(b * s.heads + h, j), share = p == 0 ? T{0} : factor / p;
      cpu::scale_row<T>(s.d, share, dk, dn + j * s.d);
      if (stop) continue;
      dc[j] = -share * cpu::dot<T>(s.d, dk, out.at(b, h) + j * out.row);
    }
  }
  // w: scores -> weights; ds: dw -> gradients of the scores, which are added to sums
  void weights_row(std::int64_t b, std::int64_t h, std::int64_t i, T* w, T* ds, T* sums) const {
    using P = cpu::Packet<T>;
    const QuadraticSizes& s = call.s;
    const P scale = ei::pset1<P>(call.scale[0]);
    const P shift = ei::pset1<P>(-lse[(b * s.heads + h) * s.n + i]);
    cpu::map([&](auto x) { return cpu::vexp(ei::pmadd(x, scale, shift)); }, s.m, w, w);
    if (!ds) return;
    const P dot = ei::pset1<P>(cpu::dot<T>(s.m, w, ds));
    cpu::map([&](auto g, auto x) { return ei::pmul(ei::pmul(ei::psub(g, dot), x), scale); }, s.m,
             ds, ds, w);
    if (call.has_bias()) cpu::add_row<T>(s.m, ds, sums);
  }
  void store(std::int64_t b, std::int64_t h, std::int64_t j, T* grad, T sum) const {
    const std::int64_t d = call.s.d;
    const T* const given = grad_out.at(b, h) + j * grad_out.row;
    const T p = precision(b * call.s.heads + h, j);
    if (!stop && call.has_bias())
      cpu::add_scaled<T>(d, -sum, call.k[0].at(b, h) + j * call.k[0].row, grad);
    T *const mean = dmean.at(b, h) + j * dmean.row, *const key = dk.at(b, h) + j * dk.row;
    if (values) {  // on what it has of the sums; where p is 0, the value was kept
      cpu::add_scaled<T>(d, p == 0 ? T{1} : theta / p, given, mean);
      std::copy_n(grad, d, key);
      return;
    }
    cpu::scale_row<T>(d, p == 0 ? T{0} : theta / p, given, mean);
    if (p == 0) cpu::add_row<T>(d, given, grad);  // the key was kept
    if (own_keys)
      cpu::add_row<T>(d, grad, mean);
    else
      std::copy_n(grad, d, key);
  }
};

void check_operands(const Op& op, const KeyUpdateOptions& o, In in) {
  require(in.size() == 1 || in.size() == 2, op.name(), "expected qkv and keys, got {} inputs",
          in.size());
  expect_float(op, in);
  expect_rank(op, in, 0, 3);
  require(o.heads > 0 && in[0].dim(2) > 0 && in[0].dim(2) % (3 * o.heads) == 0, op.name(),
          "{} does not hold q, k and v of {} heads", in[0], o.heads);
  require(o.theta >= 0, op.name(), "theta {} is negative", o.theta);
  if (in.size() > 1) expect_shape(op, in, 1, {in[0].dim(0), in[0].dim(1), in[0].dim(2) / 3});
}

struct Counts {
  std::uint64_t pairs, elements, product;
  Counts(const KeyUpdateOptions& o, const Tensor& qkv) {
    elements = count(qkv) / 3;  // of q, and of the keys
    const auto n = static_cast<std::uint64_t>(qkv.dim(1));
    pairs = static_cast<std::uint64_t>(qkv.dim(0) * o.heads) * n * n;
    product = 2 * elements * n;
  }
};

TensorSpecs updated_specs(const Op& op, const KeyUpdateOptions& options, In in) {
  check_operands(op, options, in);
  const Shape& s = in[0].shape();
  const TensorSpec rows = in[0].spec({s[0], options.heads, s[1]});
  return {in[0].spec({s[0], s[1], s[2] / 3}), rows, rows};
}

struct Case {
  KeyUpdateOptions options;
  std::vector<SampleInput> inputs;
};
// Each of keys and of values.
std::vector<Case> update_cases() {
  using S = SampleInput;
  using O = KeyUpdateOptions;
  const auto apart = [](std::int64_t b, std::int64_t n, std::int64_t width) {
    return std::vector{S::uniform({b, n, 3 * width}), S::uniform({b, n, width})};
  };
  const std::vector<Case> of_keys{{O{.heads = 1}, {S::uniform({1, 1, 3})}},
                                  {O{.heads = 3, .theta = 0.5}, {S::uniform({2, 5, 36}, -2, 2)}},
                                  {O{.heads = 2, .theta = 0}, apart(2, 5, 6)},
                                  {O{.heads = 2, .dot_scores = true}, apart(1, 7, 6)},
                                  {O{.heads = 2, .stop_gradient = true}, apart(2, 4, 6)},
                                  {O{.heads = 1, .stop_gradient = true}, {S::uniform({1, 5, 12})}},
                                  {O{.heads = 2, .theta = 0.3, .beta = 2}, apart(1, 5, 6)}};
  std::vector<Case> all = of_keys;
  for (Case one : of_keys) {
    one.options.values = true;
    all.push_back(one);
  }
  return all;
}

}  // namespace

TensorSpecs KeyUpdate::infer(In in) const { return updated_specs(*this, options, in); }

// qk: scale 1, bias 1 per score, norms 2; weights: softmax 5, sum over queries 1; sums: 4 per
// element
CostParts KeyUpdate::cost(In in, In out) const {
  const Counts c(options, in[0]);
  const std::uint64_t scores = options.dot_scores ? c.pairs : 2 * c.pairs + 2 * c.elements;
  const std::uint64_t third = in[0].bytes() / 3;
  const bool apart = in.size() > 1;
  return {{"qk", {c.product, scores, third + (apart ? in[1].bytes() : third), 0}},
          {"weights", {0, 6 * c.pairs, 0, out[1].bytes() + out[2].bytes()}},
          {options.values ? "wv" : "wq",
           {c.product, 4 * c.elements, options.values || apart ? third : 0, out[0].bytes()}}};
}

void KeyUpdate::cpu(In in, Out out) const {
  const bool values = options.values;
  const QuadraticOptions scores = options.scores(in.size() > 1);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const cpu::QuadraticCall<T> call(scores, in);
    const TokenHeads<T> k0 = token_heads<T>(in[0], options.heads, 1, 3);
    const Forward<T> forward{call,
                             values ? call.v : call.q,
                             values ? call.v : k0,
                             values ? call.v : call.k[0],
                             token_heads<T>(out[0], options.heads),
                             out[1].data<T>(),
                             out[2].data<T>(),
                             static_cast<T>(options.theta),
                             values ? static_cast<T>(options.beta) : call.scale[0]};
    const std::int64_t heads = options.heads;
    cpu::parallel_each(in[0].dim(0) * heads, 1,
                       [&](std::int64_t head) { forward(head / heads, head % heads); });
  });
}

Tensors KeyUpdate::grad(const GradArgs& args) const {
  return run(KeyUpdateBackward(options),
             joined({args.grad_out[0], args.out[0], args.out[1], args.out[2]}, args.in));
}

Samples KeyUpdate::samples() {
  Samples all;
  for (const auto& [options, inputs] : update_cases())
    if (!options.stop_gradient) all.push_back(sample(KeyUpdate(options), inputs, 1e-5));
  for (const bool values : {false, true})
    all.push_back(sample(KeyUpdate({.heads = 1, .values = values}),
                         {SampleInput::uniform({1, 197, 9})}, 1e-5));
  return all;
}

TensorSpecs KeyUpdateBackward::infer(In in) const {
  require(in.size() == 5 || in.size() == 6, name(), "expected 5 or 6 inputs, got {}", in.size());
  expect_float(*this, in);
  const TensorSpecs made = updated_specs(*this, options, in.subspan(4));
  expect_shape(*this, in, 0, made[0].shape);
  for (int i = 0; i < 3; ++i) expect_shape(*this, in, i + 1, made[i].shape);
  TensorSpecs specs;
  for (const Tensor& t : in.subspan(4)) specs.push_back(t.spec());
  return specs;
}

// weights: exp 3; and, unless stopped, dc 1, dot 2, ds 3 per pair. sums: dn 1, dmean 1 per element;
// and dc 2. qk: bias 1 per score, norms 2; and sums of ds 1 per score, their part 2. All gradients
// of keys that are k0, and of values, add up: 1.
CostParts KeyUpdateBackward::cost(In in, In out) const {
  const bool values = options.values;
  const Counts c(options, in[4]);
  const bool bias = !options.dot_scores, through = !options.stop_gradient, own = in.size() == 5;
  std::uint64_t scores = bias ? c.pairs + 2 * c.elements : 0;
  if (bias && through) scores += c.pairs + 2 * c.elements;
  const std::uint64_t third = in[4].bytes() / 3;
  const std::uint64_t passes = through ? 3 : 1;  // scores; dk, dq
  return {{"qk",
           {passes * c.product, scores, third + (own ? third : in[5].bytes()),
            own ? 0 : out[1].bytes()}},
          {"weights", {0, (through ? 9 : 3) * c.pairs, in[2].bytes(), 0}},
          {values ? "wv" : "wq",
           {(through ? 2 : 1) * c.product,
            (2 + (through ? 2u : 0u) + (own || values ? 1u : 0u)) * c.elements,
            in[0].bytes() + (through ? in[1].bytes() : 0) + in[3].bytes() +
                (through && values ? third : 0),
            out[0].bytes()}}};
}

void KeyUpdateBackward::cpu(In in, Out out) const {
  const bool values = options.values;
  const In forward = in.subspan(4);
  const bool own = forward.size() == 1;
  const QuadraticOptions scores = options.scores(!own);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    std::fill_n(out[0].data<T>(), out[0].numel(), T{0});  // one of q, k and v may have no part
    const auto part = [&](const Tensor& t, int which) {
      return token_heads<T>(t, options.heads, which, 3);
    };
    const auto head = [&](const Tensor& t) { return token_heads<T>(t, options.heads); };
    const cpu::QuadraticCall<T> call(scores, forward);
    const Backward<T> backward{call,
                               values ? call.v : call.q,
                               head(in[1]),
                               head(in[0]),
                               part(out[0], values ? 2 : 0),
                               part(out[0], 0),
                               part(out[0], values ? 2 : 1),
                               own ? part(out[0], 1) : head(out[1]),
                               in[2].data<T>(),
                               in[3].data<T>(),
                               static_cast<T>(options.theta),
                               values ? static_cast<T>(options.beta) : call.scale[0],
                               options.stop_gradient,
                               values,
                               own};
    const std::int64_t heads = options.heads;
    cpu::parallel_each(forward[0].dim(0) * heads, 1,
                       [&](std::int64_t task) { backward(task / heads, task % heads); });
  });
}

Samples KeyUpdateBackward::samples() {
  Samples all;
  for (const auto& [options, inputs] : update_cases()) {
    const Shape& qkv = inputs[0].shape;
    const Shape keys{qkv[0], qkv[1], qkv[2] / 3}, rows{qkv[0], options.heads, qkv[1]};
    std::vector<S> all_inputs{S::uniform(keys), S::uniform(keys), S::uniform(rows, 1, 2),
                              S::uniform(rows, 0.2, 3)};
    all_inputs.insert(all_inputs.end(), inputs.begin(), inputs.end());
    all.push_back(sample(KeyUpdateBackward(options), all_inputs, 1e-5));
  }
  const S keys = S::uniform({1, 197, 3}), rows = S::uniform({1, 1, 197}, 4, 6);
  for (const bool values : {false, true})
    all.push_back(sample(KeyUpdateBackward({.heads = 1, .values = values}),
                         {keys, keys, rows, rows, S::uniform({1, 197, 9})}, 1e-5));
  return all;
}

}  // namespace ops

}  // namespace hg
