// axial: softmax attention of the first half of the heads along rows of the grid, of the others
// along columns.
#include "nn/attention/grouped.h"
#include "nn/attention/variant.h"

namespace hg::nn {
namespace {

PlacedGroups::GroupOf lines_of(std::int64_t heads) {
  return [heads](std::int64_t head, std::int64_t row, std::int64_t column) {
    return static_cast<std::int32_t>(head < (heads + 1) / 2 ? row : column);
  };
}

class AxialAttention final : public PlacedAttention {
 public:
  AxialAttention(const Builder& self, const AttentionOptions& o)
      : PlacedAttention(self, o, o.heads > 1, lines_of(o.heads)) {}
};

}  // namespace

AttentionVariant axial_attention() { return variant<AxialAttention>(); }

}  // namespace hg::nn
