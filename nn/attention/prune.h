// Which pairs of query and key survive pruning by learned priors (nn/METHODS.md, section 2.6): pure
// functions from priors to supports. The unit is a pair or, with block > 1, a tile of pairs; its
// importance is the sum of its |pi|. The least important go first; of equal ones the first.
#pragma once

#include <vector>

#include "tensor/ops/attention/pair_support.h"
#include "tensor/tensor.h"

namespace hg::nn {

struct PruneOptions {
  // scores: pairs by |pi|; mixed: keys of a head by their sum of |pi|, then pairs of the others;
  // keys: keys of a head by |pi|
  enum class Method { scores, mixed, keys };
  enum class Scope { global, layer, head, row };  // units are compared within such a group

  Method method = Method::scores;
  double fraction = 0.5;       // of each group, pruned in all
  double key_fraction = 0.15;  // mixed: keys dropped of each head
  Scope scope = Scope::global;
  std::int64_t min_per_row = 1;  // rows with fewer pairs get their largest units back
  // Token 0 keeps its pairs as key and, but for dropped keys, as query.
  bool protect_cls = false;
  std::int64_t block = 1;
};

struct PruneCounts {
  std::int64_t pairs = 0, kept_pairs = 0;  // of all layers and heads
  std::int64_t keys = 0, kept_keys = 0;
  std::int64_t restored_rows = 0;  // that would have had fewer than min_per_row pairs
};

struct Pruned {
  std::vector<std::shared_ptr<const PairSupport>> supports;  // of each layer
  PruneCounts counts;
};

// priors: of each layer f32 [H, N, N] (scores, mixed) or [H, N] (keys). Throws hg::Error naming
// what does not fit.
Pruned prune(const std::vector<Tensor>& priors, const PruneOptions& options);

// A support as bits, i64 [H, N, ceil(N / 64)]: for each query one bit a key, the lowest first. And
// back; throws hg::Error if the tensor does not hold such bits.
Tensor mask_of(const PairSupport& support);
std::shared_ptr<const PairSupport> support_of(const Tensor& mask);

}  // namespace hg::nn
