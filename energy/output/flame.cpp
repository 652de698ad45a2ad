#include "energy/output/flame.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace hg::energy {
namespace {

constexpr double kWidth = 1000, kLine = 20, kLetter = 7.2;
constexpr double kThinnest = 0.25;  // what is narrower is left out

struct Frame {
  std::string name;
  std::int64_t energy_uj = 0, low_uj = 0, high_uj = 0;
  Kind kind = Kind::measured;
  std::vector<std::unique_ptr<Frame>> inner;

  Frame& child(std::string_view wanted) {
    for (const auto& f : inner)
      if (f->name == wanted) return *f;
    inner.push_back(std::make_unique<Frame>());
    inner.back()->name = wanted;
    return *inner.back();
  }
  void add(const LedgerRow& row) {
    energy_uj += row.energy_uj;
    low_uj += row.low_uj;
    high_uj += row.high_uj;
    kind = std::max(kind, row.kind);
  }
};

Frame tree_of(std::span<const LedgerRow> rows) {
  Frame root;
  root.name = "all";
  for (const LedgerRow& row : rows) {
    root.add(row);
    Frame* frame = &root;
    std::string_view rest = row.label.layer;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('.'), rest.size());
      frame = &frame->child(rest.substr(0, end));
      frame->add(row);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    frame->child(row.label.op).add(row);
  }
  return root;
}

std::size_t depth_of(const Frame& frame) {
  std::size_t deepest = 0;
  for (const auto& f : frame.inner) deepest = std::max(deepest, depth_of(*f));
  return deepest + 1;
}

class Drawing {
 public:
  explicit Drawing(const Frame& root) : total_(static_cast<double>(root.energy_uj)) {
    svg_ = fmt::format(
        "<svg class=\"flame\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Joules by layer and "
        "op\">\n",
        kWidth, kLine * static_cast<double>(depth_of(root)));
    draw(root, "", 0, 0);
    svg_ += "</svg>\n";
  }
  std::string take() { return std::move(svg_); }

 private:
  void draw(const Frame& f, const std::string& path, double x, std::size_t depth) {
    const double width = kWidth * static_cast<double>(f.energy_uj) / total_;
    if (!(width >= kThinnest)) return;
    const std::string full = path.empty() ? f.name : path + "." + f.name;
    const double y = kLine * static_cast<double>(depth);
    const double joules = static_cast<double>(f.energy_uj) * 1e-6;
    svg_ += fmt::format(
        "<g><title>{}: {:.4g} J ({:.4g} to {:.4g}), {:.1f} %, {}</title><rect class=\"f{}\" "
        "x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" rx=\"2\"/>",
        escape_html(full), joules, static_cast<double>(f.low_uj) * 1e-6,
        static_cast<double>(f.high_uj) * 1e-6, 100 * static_cast<double>(f.energy_uj) / total_,
        to_string(f.kind), depth % 6, x, y, std::max(0.0, width - 0.5), kLine - 1);
    const auto letters = static_cast<std::size_t>(std::max(0.0, (width - 6) / kLetter));
    if (letters >= 2)
      svg_ += fmt::format("<text x=\"{:.2f}\" y=\"{}\">{}</text>", x + 3, y + kLine - 6,
                          escape_html(f.name.substr(0, letters)));
    svg_ += "</g>\n";
    for (const auto& inner : f.inner) {
      draw(*inner, depth == 0 ? "" : full, x, depth + 1);
      x += kWidth * static_cast<double>(inner->energy_uj) / total_;
    }
  }

  const double total_;
  std::string svg_;
};

}  // namespace

std::string flame_svg(std::span<const LedgerRow> rows) {
  const Frame root = tree_of(rows);
  return root.energy_uj > 0 ? Drawing(root).take() : "<p>No energy was measured.</p>\n";
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  return escaped;
}

}  // namespace hg::energy
