#include "train/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/base/text.h"

namespace hg::report {
namespace {

constexpr double kWidth = 440, kHeight = 270;
constexpr double kLeft = 58, kRight = 14, kTop = 12, kBottom = 46;

struct Range {
  double low = 0, high = 0;
  void include(double v) { low = std::min(low, v), high = std::max(high, v); }
  // A single value gets room on both sides.
  void widen() {
    const double room = high > low ? 0.04 * (high - low) : std::max(1e-9, 0.5 * std::abs(high));
    low -= room;
    high += room;
  }
};

// Where values lie on the drawing.
struct Scale {
  Range x, y;
  double px(double v) const {
    return kLeft + (v - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }
  double py(double v) const {
    return kHeight - kBottom - (v - y.low) / (y.high - y.low) * (kHeight - kTop - kBottom);
  }
};

std::string chart_start(double height, const std::string& label) {
  return fmt::format("<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
                     kWidth, height, escape_html(label));
}

// All ticks of an axis with as many decimals as their step needs.
std::string tick_text(double value, double step) {
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, decimals);
}

std::string grid(const Scale& s, const Axes& axes) {
  std::string svg = "<g class=\"axis\">\n";
  const auto ys = ticks(s.y.low, s.y.high, 5);
  const double y_step = ys.size() > 1 ? ys[1] - ys[0] : 1;
  for (const double v : ys)
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" "
        "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, kWidth - kRight, s.py(v), s.py(v), kLeft - 7, s.py(v) + 4, tick_text(v, y_step));
  const auto xs = ticks(s.x.low, s.x.high, 6, axes.whole_x);
  const double x_step = xs.size() > 1 ? xs[1] - xs[0] : 1;
  for (const double v : xs)
    svg += fmt::format(
        "<line class=\"tick\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text "
        "x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        s.px(v), kHeight - kBottom, kHeight - kBottom + 4, kHeight - kBottom + 17,
        tick_text(v, x_step));
  svg += fmt::format("<line class=\"base\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", kLeft,
                     kWidth - kRight, kHeight - kBottom, kHeight - kBottom);
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, escape_html(axes.x));
  const double middle = (kTop + kHeight - kBottom) / 2;
  svg += fmt::format(
      "<text x=\"13\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 13 "
      "{0:.1f})\">{1}</text>\n",
      middle, escape_html(axes.y));
  return svg + "</g>\n";
}

// At most so many characters, cut where one begins.
std::string shortened(const std::string& text, std::size_t most) {
  std::size_t letters = 0, end = 0;
  for (; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++letters == most) break;
  return end == text.size() ? text : text.substr(0, end) + "…";
}

std::string hit(double x, double y, const std::string& note) {
  if (note.empty()) return "";
  return fmt::format(
      "<circle class=\"hit\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"8\"><title>{}</title></circle>\n", x,
      y, escape_html(note));
}

std::string dot(double x, double y, const char* css, double radius) {
  return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>", css, x, y,
                     radius);
}

// Names beside the marks: to the right where there is room and no other name, else to the left, or
// below where that is taken as well.
class MarkLabels {
 public:
  std::string add(const std::string& name, double x, double y) {
    const std::string text = shortened(name, 24);
    const double width = 7.8 * static_cast<double>(text.size());
    Box box{x + 10, y + 4, width};
    if (!free(box)) box = {x - 10 - width, y + 4, width};
    for (int tries = 0; tries < 4 && !free(box); ++tries) box = {x - width / 2, box.y + 15, width};
    taken_.push_back(box);
    return fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", box.x, box.y,
                       escape_html(text));
  }
  void add_dot(double x, double y) { taken_.push_back({x - 8, y + 4, 16}); }

 private:
  struct Box {
    double x, y, width;
  };
  bool free(const Box& box) const {
    if (box.x < kLeft || box.x + box.width > kWidth) return false;
    return std::none_of(taken_.begin(), taken_.end(), [&](const Box& other) {
      return std::abs(other.y - box.y) < 13 && box.x < other.x + other.width &&
             other.x < box.x + box.width;
    });
  }
  std::vector<Box> taken_;
};

// Of all marks, after the dots, so that they lie above them.
std::string labels_of(const Scale& scale, const std::vector<Series>& series) {
  MarkLabels labels;
  std::string svg;
  for (const Series& s : series)
    if (s.draw == Draw::marks)
      for (const Point& p : s.points) labels.add_dot(scale.px(p.x), scale.py(p.y));
  for (const Series& s : series)
    if (s.draw == Draw::marks)
      for (const Point& p : s.points) svg += labels.add(s.name, scale.px(p.x), scale.py(p.y));
  return svg;
}

std::string line_path(const Scale& scale, const std::vector<Point>& points) {
  std::string d;
  for (const Point& p : points)
    d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", scale.px(p.x), scale.py(p.y));
  return fmt::format("<path class=\"line\" d=\"{}\"/>\n", d);
}

std::string band(const Scale& scale, const std::vector<Spread>& spread) {
  if (spread.size() < 2) return "";
  std::string d;
  for (const Spread& s : spread)
    d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", scale.px(s.x), scale.py(s.high));
  for (auto s = spread.rbegin(); s != spread.rend(); ++s)
    d += fmt::format("L{:.1f} {:.1f}", scale.px(s->x), scale.py(s->low));
  return fmt::format("<path class=\"band\" d=\"{}Z\"/>\n", d);
}

// Stairs from the bottom, up to each point and on to the right edge. What lies below is beaten.
std::string front(const Scale& scale, const std::vector<Point>& points) {
  if (points.empty()) return "";
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::string stairs = fmt::format("M{:.1f} {:.1f}", scale.px(points[0].x), bottom);
  for (const Point& p : points)
    stairs += fmt::format("H{:.1f}V{:.1f}", scale.px(p.x), scale.py(p.y));
  stairs += fmt::format("H{:.1f}", right);
  return fmt::format("<path class=\"beaten\" d=\"{0}V{1}Z\"/><path class=\"front\" d=\"{0}\"/>\n",
                     stairs, bottom);
}

std::string drawn(const Scale& scale, const Series& series, std::size_t place) {
  constexpr std::size_t kMostDots = 60;
  if (series.draw == Draw::front) return front(scale, series.points);
  const bool line = series.draw == Draw::line || series.draw == Draw::line_and_dots;
  std::string body = band(scale, series.spread) + (line ? line_path(scale, series.points) : "");
  for (const Point& p : series.points) {
    const double x = scale.px(p.x), y = scale.py(p.y);
    if (series.draw == Draw::line_and_dots && series.points.size() <= kMostDots)
      body += dot(x, y, "dot", 3.2);
    if (series.draw == Draw::dots) body += dot(x, y, "dot faint", 3.2);
    if (series.draw == Draw::marks) body += dot(x, y, "mark", 7);
    body += hit(x, y, p.note);
  }
  return fmt::format("<g class=\"s{}\">{}</g>\n", series.color.value_or(place) % kSeriesColors,
                     body);
}

}  // namespace

std::vector<double> ticks(double low, double high, int most, bool whole) {
  std::vector<double> result;
  if (!(high > low) || most < 1) return result;
  const double rough = (high - low) / most;
  double step = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (factor * step >= rough * (1 - 1e-9)) {
      step *= factor;
      break;
    }
  if (whole) step = std::max(1.0, std::round(step));
  const double first = std::ceil(low / step - 1e-9);
  for (double k = first; k * step <= high + 1e-9 * step; ++k) result.push_back(k * step);
  return result;
}

std::string line_chart(const Axes& axes, const std::vector<Series>& series) {
  Scale scale;
  bool first = true;
  for (const Series& s : series)
    for (const Point& p : s.points) {
      if (std::exchange(first, false)) scale = {{p.x, p.x}, {p.y, p.y}};
      scale.x.include(p.x);
      scale.y.include(p.y);
    }
  for (const Series& s : series)
    for (const Spread& between : s.spread)
      scale.y.include(between.low), scale.y.include(between.high);
  if (first) return "<p class=\"none\">There is no such figure yet.</p>\n";
  scale.x.widen();
  scale.y.widen();
  if (axes.x_from_zero) scale.x.low = 0;
  if (axes.y_from_zero) scale.y.low = 0;
  std::string svg = chart_start(kHeight, fmt::format("{} against {}", axes.y, axes.x));
  svg += grid(scale, axes);
  for (std::size_t i = 0; i < series.size(); ++i) svg += drawn(scale, series[i], i);
  return svg + labels_of(scale, series) + "</svg>\n";
}

std::string chart_with_legend(const Axes& axes, const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& s : series) names.push_back(s.name);
  return (names.size() > 1 ? legend(names) : "") + line_chart(axes, series);
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> means;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t from = i * points.size() / most, to = (i + 1) * points.size() / most;
    const auto n = static_cast<double>(to - from);
    Point mean{0, 0, points[to - 1].note};
    for (std::size_t k = from; k < to; ++k) {
      mean.x += points[k].x / n;
      mean.y += points[k].y / n;
    }
    means.push_back(mean);
  }
  return means;
}

Unit energy_unit(double most_j) {
  if (most_j >= 1e6) return {1e-6, "MJ"};
  if (most_j >= 1e3) return {1e-3, "kJ"};
  if (most_j >= 1) return {1, "J"};
  return {1e3, "mJ"};
}

std::string legend(const std::vector<std::string>& names) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    html += fmt::format("<li><span class=\"swatch b{}\"></span>{}</li>", i % kSeriesColors,
                        escape_html(names[i]));
  return html + "</ul>\n";
}

std::string bar_chart(const std::string& label, const std::vector<Bar>& bars) {
  constexpr double kRow = 46;
  double most = 0;
  for (const Bar& b : bars) most = std::max({most, b.interval.value, b.interval.high});
  if (!(most > 0)) return "<p class=\"none\">No energy was measured.</p>\n";
  const double scale = (kWidth - 4) / most;
  std::string svg = chart_start(kRow * static_cast<double>(bars.size()), label);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& b = bars[i];
    const double y = kRow * static_cast<double>(i), low = b.interval.low * scale,
                 high = b.interval.high * scale, middle = y + 31;
    svg += fmt::format(
        "<g><title>{7}: {1}</title><text x=\"0\" y=\"{2:.0f}\">{0}</text><text x=\"{3}\" "
        "y=\"{2:.0f}\" text-anchor=\"end\">{1}</text><rect class=\"b{4}\" x=\"0\" y=\"{5:.0f}\" "
        "width=\"{6:.1f}\" height=\"16\" rx=\"2\"/>",
        escape_html(shortened(b.name, 24)), escape_html(b.text), y + 15, kWidth,
        b.color % kSeriesColors, y + 23, b.interval.value * scale, escape_html(b.name));
    svg += fmt::format(
        "<path class=\"whisker\" d=\"M{0:.1f} {2:.0f}H{1:.1f}M{0:.1f} {3:.0f}v10M{1:.1f} "
        "{3:.0f}v10\"/></g>\n",
        low + 1, high + 1, middle, middle - 5);
  }
  return svg + "</svg>\n";
}

std::string interval_chart(const std::string& label, const std::vector<Bar>& bars) {
  constexpr double kRow = 42, kAxis = 24;
  Range range;  // holds 0
  for (const Bar& b : bars) {
    range.include(b.interval.low);
    range.include(b.interval.high);
  }
  range.widen();
  const auto at = [&](double v) {
    return 8 + (v - range.low) / (range.high - range.low) * (kWidth - 16);
  };
  const double bottom = kRow * static_cast<double>(bars.size()) + 4;
  std::string svg = chart_start(bottom + kAxis, label);
  svg += "<g class=\"axis\">";
  const auto marks = ticks(range.low, range.high, 6);
  for (const double v : marks)
    svg += fmt::format(
        "<line class=\"{0}\" x1=\"{1:.1f}\" x2=\"{1:.1f}\" y1=\"0\" y2=\"{2}\"/><text "
        "x=\"{1:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>",
        v == 0 ? "base" : "grid", at(v), bottom, bottom + 16,
        tick_text(v, marks.size() > 1 ? marks[1] - marks[0] : 1));
  svg += "</g>\n";
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& b = bars[i];
    const double y = kRow * static_cast<double>(i), middle = y + 30;
    svg += fmt::format(
        "<g><title>{0}: {1}</title><text x=\"0\" y=\"{2:.0f}\">{3}</text><text x=\"{4}\" "
        "y=\"{2:.0f}\" text-anchor=\"end\">{1}</text><path class=\"whisker\" d=\"M{5:.1f} "
        "{7:.0f}H{6:.1f}M{5:.1f} {8:.0f}v10M{6:.1f} {8:.0f}v10\"/><circle class=\"b{9}\" "
        "cx=\"{10:.1f}\" cy=\"{7:.0f}\" r=\"5\"/></g>\n",
        escape_html(b.name), escape_html(b.text), y + 15, escape_html(shortened(b.name, 24)),
        kWidth, at(b.interval.low), at(b.interval.high), middle, middle - 5,
        b.color % kSeriesColors, at(b.interval.value));
  }
  return svg + "</svg>\n";
}

std::string stacked_bar(const std::string& label, const std::vector<Part>& parts) {
  constexpr double kLong = 1000, kThick = 34;
  double sum = 0, x = 0;
  for (const Part& p : parts) sum += p.value;
  if (!(sum > 0)) return "<p class=\"none\">No energy was measured.</p>\n";
  std::string svg = fmt::format(
      "<svg class=\"stack\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\">\n",
      kLong, kThick, escape_html(label));
  for (const Part& p : parts) {
    const double width = kLong * p.value / sum;
    svg += fmt::format(
        "<g><title>{}</title><rect class=\"b{}\" x=\"{:.2f}\" y=\"0\" width=\"{:.2f}\" "
        "height=\"{}\"/></g>\n",
        escape_html(p.note), p.color % kSeriesColors, x, std::max(0.0, width - 1.5), kThick);
    x += width;
  }
  return svg + "</svg>\n";
}

}  // namespace hg::report
