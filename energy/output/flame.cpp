#include "energy/output/flame.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/text.h"

namespace hg::energy {
namespace {

constexpr int kFrameHeight = 20;         // pixels
constexpr double kThinnest = 0.025;      // percent; what is narrower is left out
constexpr double kNarrowestForText = 1;  // percent
constexpr std::size_t kFrameColors = 6;

std::size_t depth_of(const RowGroup& frame) {
  std::size_t deepest = 0;
  for (const RowGroup& g : frame.inner) deepest = std::max(deepest, depth_of(g));
  return deepest + 1;
}

class Frames {
 public:
  explicit Frames(const RowGroup& root) : total_j_(root.sum.joules().value) { add(root, "", 0, 0); }
  std::string take() { return std::move(html_); }

 private:
  void add(const RowGroup& f, const std::string& path, double left, std::size_t depth) {
    const Interval joules = f.sum.joules();
    const double width = percent(f);
    if (!(width >= kThinnest)) return;
    const std::string full = path.empty() ? f.name : path + "." + f.name;
    html_ += fmt::format(
        "<i class=\"f{}{}\" style=\"left:{:.4f}%;width:{:.4f}%;top:{}px\" title=\"{}: {:.4g} J "
        "({:.4g} to {:.4g}), {:.1f} %, {}\">{}</i>\n",
        depth % kFrameColors, width < kNarrowestForText ? " thin" : "", left, width,
        kFrameHeight * static_cast<int>(depth), escape_html(full), joules.value, joules.low,
        joules.high, width, to_string(f.sum.kind), escape_html(f.name));
    for (const RowGroup& inner : f.inner) {
      add(inner, depth == 0 ? "" : full, left, depth + 1);
      left += percent(inner);
    }
  }
  double percent(const RowGroup& f) const { return 100 * f.sum.joules().value / total_j_; }

  const double total_j_;
  std::string html_;
};

}  // namespace

std::string flame_html(std::span<const LedgerRow> rows) {
  RowGroup root{"all"};
  for (const LedgerRow& row : rows) root.add(row, levels_of(row.label));
  if (root.sum.energy_uj <= 0) return "<p>No energy was measured.</p>\n";
  return fmt::format(
      "<div class=\"tools\"><input type=\"search\" placeholder=\"Search layers and ops\" "
      "aria-label=\"Search layers and ops\"><output></output><button hidden>Show all</button>"
      "</div>\n<div class=\"flame\" style=\"height:{}px\">\n{}</div>\n",
      kFrameHeight * static_cast<int>(depth_of(root)), Frames(root).take());
}

}  // namespace hg::energy
