// Multi-head attention: [Q|K|V] = x W_qkv + b, a variant's core, the output projection. A variant
// (METHODS.md, section 2) is a class of its own file; make_attention() knows them by name.
#pragma once

#include <memory>

#include "nn/context.h"
#include "nn/linear.h"
#include "tensor/ops/quadratic_attention.h"
#include "tensor/pair_support.h"

namespace hg::nn {

struct AttentionOptions {
  enum class PiShape { head, layer, head_pos };
  enum class PiParam { softmax, clamp };
  enum class Mode { soft, hard_e, soft_e };
  enum class Squeeze { mean, max, mean_pre };

  std::string variant = "softmax";
  std::int64_t width = 0, heads = 1, dim_head = 0;
  std::int64_t tokens = 0;  // of the whole sequence: positions are 0 .. tokens - 1
  bool qkv_bias = true;
  double dropout = 0;         // on the projected output
  double weight_dropout = 0;  // on attention weights, where a variant has such
  bool causal = false;        // softmax

  std::int64_t components = 2;  // mgk, mlk
  bool shift_keys = false;
  std::vector<double> sigma2_scale;  // factors on sqrt(dim_head); empty: all 1
  bool norm_const = false;
  PiShape pi_shape = PiShape::head;
  PiParam pi_param = PiParam::softmax;
  Mode mode = Mode::soft;
  bool feature_norm = false;  // mlk

  bool rbf_score = false;  // gmm, fiak, fiak_pruned

  std::int64_t steps = 1;  // prob
  double theta = 1;
  bool magnitude_prior = false, stop_grad_em = false;

  bool feature_axis = false;  // kerformer
  Squeeze squeeze = Squeeze::mean;
  std::int64_t reduction = 16;
  bool se = true;

  std::int64_t features = 0, redraw = 1000;  // favor

  std::int64_t rows = 64;  // linformer

  std::shared_ptr<const PairSupport> support;  // fiak_pruned; none: all pairs

  std::int64_t inner() const { return heads * dim_head; }
};

class Attention {
 public:
  Attention(const Builder& parent, const AttentionOptions& options);
  virtual ~Attention() = default;
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // [B, N, E] -> [B, N, E]. ids [N] or [B, N]: each token's position in the whole sequence, which
  // picks its share of parameters bound to positions; undefined: 0 .. N-1.
  Tensor operator()(const Tensor& x, const Context& context, const Tensor& ids = {}) const;

  // Before training step `step`: what a variant draws anew from time to time.
  virtual void begin_step(std::int64_t) const {}
  // After a training step: takes up what its passes recorded, in their order.
  virtual void learn(const CachedVector<Tensors>&) const {}

  const AttentionOptions& options() const { return options_; }

 protected:
  // x [B, N, E] -> [B, N, H D]: projection and core. ids are defined unless x is the whole
  // sequence.
  virtual Tensor mixed(const Tensor& x, const Context& context, const Tensor& ids) const {
    return mix(x, qkv_(x), context, ids);
  }
  // The core alone, with the qkv [B, N, 3 H D] of all tokens; a variant has this or its own
  // mixed().
  virtual Tensor mix(const Tensor& x, const Tensor& qkv, const Context& context,
                     const Tensor& ids) const;

  // Options of the quadratic op with this layer's heads and, in training, dropout of the weights of
  // x's tokens on `keys`.
  QuadraticOptions quadratic(const Context& context, const Tensor& x, std::int64_t keys) const;
  // Runs it; where likelihoods are asked for and `likely`, records this layer's.
  Tensor attend(QuadraticOptions options, In inputs, const Context& context, bool likely) const;

  Tensor project_out(const Tensor& mixed, const Context& context) const;

  AttentionOptions options_;
  Linear qkv_;

 private:
  Linear proj_;
};

// Throws hg::Error naming an unknown variant.
std::unique_ptr<Attention> make_attention(const Builder& parent, const AttentionOptions& options);

// What a variant can do, for those who check configurations; throws as above.
struct AttentionTraits {
  bool quadratic = false;   // has weights A of N x N
  bool weights = false;     // has normalised weights that dropout can act on
  bool likelihood = false;  // has the MLE term (with Gaussian scores)
};
AttentionTraits attention_traits(const AttentionOptions& options);

}  // namespace hg::nn
