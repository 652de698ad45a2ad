// window: softmax attention among the patches of a w x w window of the grid. The windows of odd
// layers are shifted by half a side in both directions; at the border they are cut, not wrapped.
#include "nn/attention/grouped.h"
#include "nn/attention/variant.h"

namespace hg::nn {
namespace {

PlacedGroups::GroupOf windows_of(const AttentionOptions& o) {
  require(o.window > 0, "attention", "windows of {} patches a side", o.window);
  const std::int64_t side = o.window, shift = o.shift && o.layer % 2 == 1 ? side / 2 : 0;
  const std::int64_t across = (grid_columns(o.tokens - 1) - 1 + shift) / side + 1;
  return [=](std::int64_t, std::int64_t row, std::int64_t column) {
    return static_cast<std::int32_t>((row + shift) / side * across + (column + shift) / side);
  };
}

class WindowAttention final : public PlacedAttention {
 public:
  WindowAttention(const Builder& self, const AttentionOptions& o)
      : PlacedAttention(self, o, false, windows_of(o)) {}
};

}  // namespace

AttentionVariant window_attention() { return variant<WindowAttention>(); }

}  // namespace hg::nn
