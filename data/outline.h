// Filled outlines for the shapes data set: closed polygons, holes by the even-odd rule.
#pragma once

#include <vector>

#include "data/dataset.h"

namespace hg {

struct Point {
  float x, y;
};
using Outline = std::vector<std::vector<Point>>;

inline constexpr int kOutlines = 10;
const char* outline_name(int kind);
// Centred on the origin, its farthest point at distance 1.
Outline make_outline(int kind);

Outline transformed(Outline outline, float radius, float angle, float x, float y);
Box bounds(const Outline& outline);

// Adds to coverage [height,width], for every pixel, the part of it inside the outline, 0 to 1.
class OutlineFill {
 public:
  void operator()(const Outline& outline, int height, int width, float* coverage);

 private:
  CachedVector<float> crossings_;
};

}  // namespace hg
