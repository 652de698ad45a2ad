// One attention layer by itself, wired so that a test gives Q, K and V directly: the input holds
// them side by side (with further keys behind them), the projections pick them out, and the output
// projection hands the core's result through.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "autograd/tape.h"
#include "nn/attention/attention.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/concat.h"

namespace hg::testing {

// Small work: a team of threads would only wait for one another.
inline const bool kOneThread = (cpu::set_threads(1), true);

using nn::AttentionOptions;
using Values = std::vector<double>;

inline AttentionOptions variant(const std::string& name) {
  AttentionOptions o;
  o.variant = name;
  return o;
}

// Every variant that a configuration can name, with options that make it interesting.
inline std::vector<AttentionOptions> all_variants() {
  using O = AttentionOptions;
  std::vector<O> all;
  for (const std::string& name : nn::attention_names()) {
    O o;
    o.variant = name;
    if (nn::attention_traits(o).pruned) continue;  // without a support it is softmax
    o.rows = 3;
    o.reduction = 2;
    o.window = 2;
    o.buckets = 4;
    o.tokens_hidden = 3;
    all.push_back(o);
  }
  O shifted;
  shifted.variant = "window";
  shifted.window = 2;
  shifted.layer = 1;
  all.push_back(shifted);
  O mgk;
  mgk.variant = "mgk";
  mgk.components = 3;
  mgk.shift_keys = true;
  mgk.sigma2_scale = {1, 0.5, 2};
  mgk.norm_const = true;
  mgk.pi_shape = O::PiShape::head_pos;
  all.push_back(mgk);
  O clamped;
  clamped.variant = "mgk";
  clamped.pi_shape = O::PiShape::layer;
  clamped.pi_param = O::PiParam::clamp;
  all.push_back(clamped);
  O hard;
  hard.variant = "mgk";
  hard.mode = O::Mode::hard_e;
  all.push_back(hard);
  O mlk;
  mlk.variant = "mlk";
  mlk.feature_norm = true;
  mlk.pi_shape = O::PiShape::head_pos;
  all.push_back(mlk);
  for (const char* name : {"gmm", "fiak"}) {
    O prior;
    prior.variant = name;
    prior.rbf_score = true;
    all.push_back(prior);
  }
  O prob;
  prob.variant = "prob";
  prob.steps = 3;
  prob.theta = 0.5;
  all.push_back(prob);
  prob.magnitude_prior = true;
  all.push_back(prob);
  O propagated;
  propagated.variant = "prob";
  propagated.value_propagation = true;
  propagated.theta_v = 0.5;
  propagated.beta = 2;
  all.push_back(propagated);
  propagated.steps = 0;
  all.push_back(propagated);
  O kerformer;
  kerformer.variant = "kerformer";
  kerformer.feature_axis = true;
  kerformer.squeeze = O::Squeeze::max;
  kerformer.reduction = 2;
  all.push_back(kerformer);
  return all;
}

// Keys that a token has in the input of a Layer.
inline std::int64_t keys_of(const AttentionOptions& o) {
  const bool mixture = o.variant == "mgk" || o.variant == "mlk";
  return mixture && !o.shift_keys ? o.components : 1;
}

class Layer {
 public:
  // Sizes are of one head's core; `keys` is the number of keys a token has in the input.
  Layer(AttentionOptions o, std::int64_t tokens, std::int64_t heads, std::int64_t dim_head,
        std::int64_t keys = 1, DType dtype = DType::f32)
      : parameters(1, false, dtype) {
    o.heads = heads;
    o.dim_head = dim_head;
    o.tokens = tokens;
    o.width = (2 + keys) * o.inner();
    o.qkv_bias = false;
    options = o;
    attention = nn::make_attention(nn::Builder(parameters), o);
    diagonal(o.variant == "hash" ? "attn.qv.weight" : "attn.qkv.weight", 0);
    diagonal("attn.proj.weight", 0);
    for (std::int64_t r = 2; r <= keys; ++r)
      diagonal("attn.k" + std::to_string(r) + ".weight", (r + 1) * o.inner());
  }

  // q, k, v and further keys [B, N, H D] each -> the core's output [B, N, H D]
  Tensor operator()(const Tensors& parts, const Tensor& ids = {}, const nn::Context& context = {}) {
    const Tensor out = (*attention)(concat(parts, 2), context, ids);
    const std::int64_t inner = options.inner(), rest = options.width - inner;
    return split(out, {inner, rest}, 2)[0];
  }

  const Tensor& value(const std::string& name) const {
    for (const nn::Parameter& p : parameters.all())
      if (p.name == "attn." + name) return p.value;
    for (const nn::Buffer& b : parameters.buffers())
      if (b.name == "attn." + name) return b.value;
    FAIL("no parameter attn." << name);
    return parameters.all()[0].value;
  }
  void set(const std::string& name, const Values& values) {
    const Tensor& t = value(name);
    REQUIRE(t.numel() == static_cast<std::int64_t>(values.size()));
    dispatch_float(t.dtype(), "test", [&]<class T>() {
      for (std::size_t i = 0; i < values.size(); ++i) t.data<T>()[i] = static_cast<T>(values[i]);
    });
  }
  // Uniform in [low, high), of everything but the wiring.
  void randomize(std::uint64_t seed, double low, double high) {
    for (const nn::Parameter& p : parameters.all()) {
      if (p.name.starts_with("attn.qkv.") || p.name.starts_with("attn.proj.") ||
          p.name.starts_with("attn.k2.") || p.name.starts_with("attn.k3."))
        continue;
      RandomStream stream(seed, p.name);
      fill_uniform(p.value, stream, low, high);
    }
  }

  AttentionOptions options;
  nn::Parameters parameters;
  std::unique_ptr<nn::Attention> attention;

 private:
  // Row i picks input first + i.
  void diagonal(const std::string& name, std::int64_t first) {
    const nn::Parameter* p = parameters.find(name);
    if (!p) return;
    const std::int64_t rows = p->value.dim(0), columns = p->value.dim(1);
    dispatch_float(p->value.dtype(), "test", [&]<class T>() {
      std::fill_n(p->value.data<T>(), p->value.numel(), T{0});
      for (std::int64_t i = 0; i < rows && first + i < columns; ++i)
        p->value.data<T>()[i * columns + first + i] = 1;
    });
  }
};

inline Tensor random(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1,
                     DType dtype = DType::f32) {
  const Tensor t = Tensor::empty(shape, dtype);
  RandomStream stream(seed, "test");
  fill_uniform(t, stream, low, high);
  return t;
}

// q, k, v and further keys of this shape.
inline Tensors random_inputs(const Shape& shape, int count = 3, std::uint64_t seed = 1) {
  Tensors parts;
  for (int i = 0; i < count; ++i)
    parts.push_back(random(shape, seed + static_cast<std::uint64_t>(i), -2, 2));
  return parts;
}

// The core's output of a layer as it begins.
inline Tensor run_layer(const AttentionOptions& o, const Tensors& parts, std::int64_t heads) {
  const std::int64_t keys = static_cast<std::int64_t>(parts.size()) - 2;
  return Layer(o, parts[0].dim(1), heads, parts[0].dim(2) / heads, keys)(parts);
}

// As one tensor [1, N, D].
inline Tensor tokens(std::int64_t n, const Values& values) {
  return Tensor::of<double>({1, n, static_cast<std::int64_t>(values.size()) / n}, values)
      .to(DType::f32);
}

inline double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const Values x = a.to(DType::f64).to_vector<double>(), y = b.to(DType::f64).to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(std::isfinite(x[i]));
    worst = std::max(worst, std::abs(x[i] - y[i]));
  }
  return worst;
}
inline double difference(const Tensor& a, const Values& b) {
  return difference(a, Tensor::of<double>(a.shape(), b));
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace hg::testing
