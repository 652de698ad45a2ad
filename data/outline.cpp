#include "data/outline.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hg {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;
constexpr int kArcSteps = 32;  // of a half circle
constexpr int kLines = 4;      // scan lines a pixel row

Point on_circle(float radius, float angle) {
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// n corners on circles of two radii in turn.
std::vector<Point> star(int n, float outer, float inner) {
  std::vector<Point> points;
  for (int i = 0; i < n; ++i)
    points.push_back(on_circle(i % 2 ? inner : outer,
                               2 * kPi * static_cast<float>(i) / static_cast<float>(n) - kPi / 2));
  return points;
}
std::vector<Point> regular(int n, float radius) { return star(n, radius, radius); }
std::vector<Point> circle(float radius) { return regular(2 * kArcSteps, radius); }

std::vector<Point> rectangle(float half_width, float half_height) {
  return {{-half_width, -half_height},
          {half_width, -half_height},
          {half_width, half_height},
          {-half_width, half_height}};
}

std::vector<Point> plus() {
  const float a = 0.95f, b = 0.31f;
  return {{-b, -a}, {b, -a}, {b, -b}, {a, -b}, {a, b},   {b, b},
          {b, a},   {-b, a}, {-b, b}, {-a, b}, {-a, -b}, {-b, -b}};
}

std::vector<Point> half_disk() {
  std::vector<Point> points;
  for (int i = 0; i <= kArcSteps; ++i)
    points.push_back(on_circle(1, kPi * static_cast<float>(i) / kArcSteps));
  return points;
}

// Outer arc of the unit circle, inner arc of a circle shifted along the axis of symmetry, through
// the same two tips. Like all outlines it is its own mirror image, left to right.
std::vector<Point> crescent() {
  const float tip = 0.3f * kPi;  // tips at angles +-tip
  const float center = 0.75f;
  const Point top = on_circle(1, tip);
  const float radius = std::hypot(top.x - center, top.y);
  const float inner = std::atan2(top.y, top.x - center);
  std::vector<Point> points;
  for (int i = 0; i <= kArcSteps; ++i)
    points.push_back(on_circle(1, tip + (2 * kPi - 2 * tip) * static_cast<float>(i) / kArcSteps));
  for (int i = kArcSteps - 1; i > 0; --i) {
    const Point p =
        on_circle(radius, inner + (2 * kPi - 2 * inner) * static_cast<float>(i) / kArcSteps);
    points.push_back({p.x + center, p.y});
  }
  for (Point& p : points) p = {p.y, p.x};
  return points;
}

struct Kind {
  const char* name;
  Outline (*make)();
};
const Kind kKinds[kOutlines] = {
    {"disk", [] { return Outline{circle(1)}; }},
    {"square", [] { return Outline{rectangle(0.707f, 0.707f)}; }},
    {"triangle", [] { return Outline{regular(3, 1)}; }},
    {"plus", [] { return Outline{plus()}; }},
    {"ring",
     [] {
       return Outline{circle(1), circle(0.6f)};
     }},
    {"star", [] { return Outline{star(10, 1, 0.42f)}; }},
    {"bar", [] { return Outline{rectangle(0.96f, 0.27f)}; }},
    {"half disk", [] { return Outline{half_disk()}; }},
    {"crescent", [] { return Outline{crescent()}; }},
    {"frame",
     [] {
       return Outline{rectangle(0.707f, 0.707f), rectangle(0.42f, 0.42f)};
     }},
};

// Adds the span [from, to) of one scan line to a row's coverage.
void add_span(float from, float to, float weight, int width, float* row) {
  from = std::clamp(from, 0.0f, static_cast<float>(width));
  to = std::clamp(to, 0.0f, static_cast<float>(width));
  const int first = static_cast<int>(from), last = static_cast<int>(to);
  if (first == last) {
    if (first < width) row[first] += weight * (to - from);
    return;
  }
  row[first] += weight * (static_cast<float>(first + 1) - from);
  for (int x = first + 1; x < last; ++x) row[x] += weight;
  if (last < width) row[last] += weight * (to - static_cast<float>(last));
}

}  // namespace

const char* outline_name(int kind) { return kKinds[kind].name; }
Outline make_outline(int kind) { return kKinds[kind].make(); }

Outline transformed(Outline outline, float radius, float angle, float x, float y) {
  const float c = radius * std::cos(angle), s = radius * std::sin(angle);
  for (auto& polygon : outline)
    for (Point& p : polygon) p = {c * p.x - s * p.y + x, s * p.x + c * p.y + y};
  return outline;
}

Box bounds(const Outline& outline) {
  const Point& p = outline[0][0];
  Box box{p.x, p.y, p.x, p.y};
  for (const auto& polygon : outline)
    for (const Point& q : polygon) {
      box.x0 = std::min(box.x0, q.x), box.x1 = std::max(box.x1, q.x);
      box.y0 = std::min(box.y0, q.y), box.y1 = std::max(box.y1, q.y);
    }
  return box;
}

void OutlineFill::operator()(const Outline& outline, int height, int width, float* coverage) {
  const Box box = bounds(outline);
  const int top = std::max(0, static_cast<int>(box.y0) * kLines);
  const int bottom = std::min(height, static_cast<int>(box.y1) + 1) * kLines;
  for (int line = top; line < bottom; ++line) {
    const float y = (static_cast<float>(line) + 0.5f) / kLines;
    crossings_.clear();
    for (const auto& polygon : outline)
      for (std::size_t i = 0; i < polygon.size(); ++i) {
        const Point &a = polygon[i], &b = polygon[(i + 1) % polygon.size()];
        if ((a.y <= y) != (b.y <= y))
          crossings_.push_back(a.x + (y - a.y) * (b.x - a.x) / (b.y - a.y));
      }
    std::sort(crossings_.begin(), crossings_.end());
    float* row = coverage + static_cast<std::ptrdiff_t>(line / kLines) * width;
    for (std::size_t i = 0; i + 1 < crossings_.size(); i += 2)
      add_span(crossings_[i], crossings_[i + 1], 1.0f / kLines, width, row);
  }
}

}  // namespace hg
