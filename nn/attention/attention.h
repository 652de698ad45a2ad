// Multi-head attention: [Q|K|V] = x W_qkv + b, a variant's core, the output projection. A variant
// (nn/METHODS.md, section 2) is one file and one line of variants.inc. Some mix tokens by other
// means than attention and have no projections.
#pragma once

#include <memory>

#include "nn/attention/gate.h"
#include "nn/layers/linear.h"
#include "tensor/ops/attention/pair_support.h"

namespace hg::nn {

struct AttentionOptions {
  enum class PiShape { head, layer, head_pos };
  enum class PiParam { softmax, clamp };
  enum class Mode { soft, hard_e, soft_e };
  enum class Squeeze { mean, max, mean_pre };
  enum class Gate { none, head, token, layer };

  std::string variant = "softmax";
  std::int64_t width = 0, heads = 1, dim_head = 0;
  std::int64_t tokens = 0;  // of the whole sequence: positions are 0 .. tokens - 1
  std::int64_t layer = 0;   // which block's it is
  bool qkv_bias = true;
  double dropout = 0;         // on the projected output
  double weight_dropout = 0;  // on attention weights, if the variant has them
  bool causal = false;        // softmax

  Gate gate = Gate::none;      // selective activation; layer: this layer has no attention
  double gate_keep = 1;        // share of heads that work, or of patches that have queries
  bool gate_per_batch = true;  // one choice of heads for all images, or one for each

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
  bool value_propagation = false;
  double theta_v = 1, beta = 1;

  bool feature_axis = false;  // kerformer
  Squeeze squeeze = Squeeze::mean;
  std::int64_t reduction = 16;
  bool se = true;

  std::int64_t features = 0, redraw = 1000;  // favor

  std::int64_t rows = 64;  // linformer

  std::int64_t window = 4;  // window: side, in patches
  bool shift = true;        // the windows of odd layers by half a side

  std::int64_t rounds = 2, buckets = 8;  // hash

  std::int64_t tokens_hidden = 0;  // mixer; 0: half the tokens

  std::shared_ptr<const PairSupport> support;  // fiak_pruned; none: all pairs

  std::int64_t inner() const { return heads * dim_head; }
};

// What a core works on: the tokens, their projections, and the heads that work.
struct CoreInput {
  Tensor x;    // [B, M, E], all tokens
  Tensor ids;  // [M] or [B, M]: their positions; undefined if x is the whole sequence
  HeadSet heads;
  Tensor asking{};     // [B, N]: the tokens that have queries; undefined: all
  Tensor query_ids{};  // their positions
  Tensors qkv{};       // [B, M, 3 H D], or q [B, N, H D] and k and v [B, M, H D] of all tokens

  bool apart() const { return asking.defined(); }
  std::int64_t queries() const { return apart() ? asking.dim(1) : x.dim(1); }
  Tensor positions_of_queries() const { return apart() ? query_ids : ids; }
  Tensors parts() const;  // q, k and v
};

// The layer that gives queries, keys and values, and how many of them: each has the inner width.
struct InwardLayer {
  std::string_view name = "qkv";
  std::int64_t parts = 3;
};

class Attention : public Learner, NoCopy {
 public:
  Attention(const Builder& self, const AttentionOptions& options, InwardLayer inward = {});

  // [B, N, E] -> [B, N, E]. ids [N] or [B, N]: each token's position in the whole sequence, for
  // parameters that belong to positions; undefined: 0 .. N-1. With asking [B, n], only these tokens
  // have queries: -> [B, n, E]; no gate may choose heads or tokens then.
  Tensor operator()(const Tensor& x, const Context& context, const Tensor& ids = {},
                    const Tensor& asking = {}) const;

  // Queries from x [B, N, E], keys and values from `memory` [B, M, E]. Only softmax can do it.
  virtual Tensor cross(const Tensor& x, const Tensor& memory, const Context& context) const;

  // Of tokens that stand for several each, sizes [B, N] (undefined: one): keys weigh as their
  // sizes. Also gives the keys [B, N, H, D]. Only softmax can do it.
  struct Weighed {
    Tensor out, keys;
  };
  virtual Weighed weighed(const Tensor& x, const Tensor& sizes, const Context& context,
                          const Tensor& asking) const;

  // Called before training step `step`, for variants that draw anew from time to time.
  virtual void begin_step(std::int64_t) const {}

  // Rows of A, over all heads, whose keys all have prior 0: their output is 0.
  virtual std::int64_t empty_rows() const { return 0; }

  const AttentionOptions& options() const { return options_; }
  const HeadGate* gate() const { return gate_.get(); }  // null: it has none

  // The tensors that hold all heads side by side; axis and parts as in HeadSet::of.
  struct ByHead {
    Tensor tensor;
    int axis;
    std::int64_t parts;
  };
  const std::vector<ByHead>& by_head() const { return by_head_; }

 protected:
  // Without projections: mixed() then gives [B, N, E].
  struct NoProjections {};
  Attention(NoProjections, const AttentionOptions& options) : options_(options) {}

  // Queries, keys and values of the heads that work.
  void project_in(CoreInput& core) const;
  // Projection and core: [B, N, H D] of the heads that work.
  virtual Tensor mixed(CoreInput core, const Context& context) const;
  // The core alone. A variant overrides this or mixed().
  virtual Tensor mix(const CoreInput& core, const Context& context) const;

  // Options of the quadratic op for this input, with the dropout of its weights in training. keys:
  // how many each query has; by default the tokens.
  QuadraticOptions quadratic(const Context& context, const CoreInput& core,
                             std::int64_t keys) const;
  QuadraticOptions quadratic(const Context& context, const CoreInput& core) const {
    return quadratic(context, core, core.x.dim(1));
  }
  // Runs the op and records what the context asks for: the spread of weights and, for a variant
  // that has them (`likely`), likelihoods.
  Tensor attend(QuadraticOptions options, In inputs, const Context& context, bool likely) const;
  bool wants_spread(const Context& context) const;

  Tensor project_out(const Tensor& mixed, const HeadSet& heads, const Context& context) const;
  const Tensor& by_head(const Tensor& tensor, int axis = 0, std::int64_t parts = 1);

  AttentionOptions options_;
  std::optional<Linear> inward_;

 private:
  Tensor of_some_heads(const Tensor& x, const Context& context, const Tensor& ids) const;
  Tensor of_some_tokens(const Tensor& x, const Context& context, const Tensor& ids,
                        const Tensor& asking) const;

  std::optional<Linear> proj_;
  std::unique_ptr<HeadGate> gate_;
  std::vector<ByHead> by_head_;
};

std::vector<std::string> attention_names();  // of all variants

// Its parameters are `attn.*` of the parent's. Throws hg::Error naming an unknown variant.
std::unique_ptr<Attention> make_attention(const Builder& parent, const AttentionOptions& options);

// What a variant can do with its options, for checks of configurations. Throws as above.
struct AttentionTraits {
  bool quadratic = false;    // has weights A of N x N
  bool weights = false;      // has normalised weights that dropout can act on
  bool likelihood = false;   // has the MLE term (with Gaussian scores)
  bool spread = false;       // can tell how its weights on tokens are spread
  bool priors = false;       // has priors on keys or pairs
  bool pruned = false;       // attends to a fixed support of pairs
  bool sizes = false;        // its tokens can stand for several each
  bool gates = false;        // has gates on tokens of its own
  bool some_heads = true;    // can leave heads out
  bool some_queries = true;  // can leave queries out
  std::int64_t least_heads = 1;
  // Rounding of f32 activations alone leaves its gradients few right digits.
  bool ill_conditioned = false;
};
AttentionTraits attention_traits(const AttentionOptions& options);

}  // namespace hg::nn
