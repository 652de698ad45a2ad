#include "energy/output/flame.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/base/text.h"

namespace hg::energy {
namespace {

constexpr double kWidth = 1000, kLine = 20, kLetter = 7.2;
constexpr double kThinnest = 0.25;  // what is narrower is left out

std::size_t depth_of(const RowGroup& frame) {
  std::size_t deepest = 0;
  for (const RowGroup& g : frame.inner) deepest = std::max(deepest, depth_of(g));
  return deepest + 1;
}

class Drawing {
 public:
  explicit Drawing(const RowGroup& root) : total_j_(root.sum.joules().value) {
    svg_ = fmt::format(
        "<svg class=\"flame\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Joules by layer and "
        "op\">\n",
        kWidth, kLine * static_cast<double>(depth_of(root)));
    draw(root, "", 0, 0);
    svg_ += "</svg>\n";
  }
  std::string take() { return std::move(svg_); }

 private:
  void draw(const RowGroup& f, const std::string& path, double x, std::size_t depth) {
    const Interval joules = f.sum.joules();
    const double share = joules.value / total_j_, width = kWidth * share;
    if (!(width >= kThinnest)) return;
    const std::string full = path.empty() ? f.name : path + "." + f.name;
    const double y = kLine * static_cast<double>(depth);
    svg_ += fmt::format(
        "<g><title>{}: {:.4g} J ({:.4g} to {:.4g}), {:.1f} %, {}</title><rect class=\"f{}\" "
        "x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" rx=\"2\"/>",
        escape_html(full), joules.value, joules.low, joules.high, 100 * share,
        to_string(f.sum.kind), depth % 6, x, y, std::max(0.0, width - 0.5), kLine - 1);
    const auto letters = static_cast<std::size_t>(std::max(0.0, (width - 6) / kLetter));
    if (letters >= 2)
      svg_ += fmt::format("<text x=\"{:.2f}\" y=\"{}\">{}</text>", x + 3, y + kLine - 6,
                          escape_html(f.name.substr(0, letters)));
    svg_ += "</g>\n";
    for (const RowGroup& inner : f.inner) {
      draw(inner, depth == 0 ? "" : full, x, depth + 1);
      x += kWidth * inner.sum.joules().value / total_j_;
    }
  }

  const double total_j_;
  std::string svg_;
};

}  // namespace

std::string flame_svg(std::span<const LedgerRow> rows) {
  RowGroup root{"all"};
  for (const LedgerRow& row : rows) root.add(row, levels_of(row.label));
  return root.sum.energy_uj > 0 ? Drawing(root).take() : "<p>No energy was measured.</p>\n";
}

}  // namespace hg::energy
