// ref_gmm, for replication of the reference only: softmax attention whose output rows are
// multiplied by the log-density of the row among the heads' rows. The reference multiplies the rows
// of A and forms A V again, which is the same.
#pragma once

#include "nn/attention/attention.h"

namespace hg::nn {

class RefGmmAttention final : public Attention {
 public:
  RefGmmAttention(const Builder& parent, const AttentionOptions& options);

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
};

}  // namespace hg::nn
