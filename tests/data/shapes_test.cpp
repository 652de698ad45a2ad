#include "data/shapes.h"

#include "data/outline.h"
#include "tests/data/files.h"

namespace hg::testing {
namespace {

Bytes pixels_of(const Dataset& data, std::int64_t i) {
  Image image;
  data.get(i, image);
  return image.pixels;
}

TEST_CASE("shapes: an image is a function of seed, split and index alone") {
  ShapesOptions options;
  options.img_size = 24;
  const auto data = make_shapes(options);
  const Bytes seven = pixels_of(*data, 7);
  pixels_of(*data, 8);
  CHECK(pixels_of(*data, 7) == seven);
  CHECK(pixels_of(*data, 17) != seven);
  options.count = 20;
  CHECK(pixels_of(*make_shapes(options), 7) == seven);
  options.seed = 2;
  CHECK(pixels_of(*make_shapes(options), 7) != seven);
  options.seed = 1, options.split = Split::test;
  CHECK(pixels_of(*make_shapes(options), 7) != seven);
}

TEST_CASE("shapes: counts, classes, sizes and channels") {
  ShapesOptions options;
  CHECK(make_shapes(options)->size() == 4096);
  options.count = 60001;
  CHECK(make_shapes(options)->size() == 60000);
  options.split = Split::test;
  CHECK(make_shapes(options)->size() == 10000);
  options.count = 0;
  CHECK(make_shapes(options)->size() == 1024);
  options.classes = 3, options.img_size = 13, options.channels = 2, options.count = 7;
  const auto data = make_shapes(options);
  CHECK(data->class_names() == std::vector<std::string>{"disk", "square", "triangle"});
  CHECK(data->label(4) == 1);
  Image image;
  data->get(6, image);
  CHECK(image.channels == 2);
  CHECK(image.height == 13);
  CHECK(image.width == 13);
  for (std::int64_t i = 0; i < 7; ++i) {
    const Box& box = *data->box(i);
    CHECK(box.x0 >= 0);
    CHECK(box.y0 >= 0);
    CHECK(box.x1 <= 13.001f);
    CHECK(box.y1 <= 13.001f);
    CHECK(box.width() > 2);
  }
}

TEST_CASE("shapes: options out of range are errors") {
  const auto fault = [](auto change) {
    ShapesOptions options;
    change(options);
    return fault_of([&] { make_shapes(options); });
  };
  contains(fault([](auto& o) { o.classes = 1; }),
           "expected 2 to 10 with data.name = \"shapes\", got 1");
  contains(fault([](auto& o) { o.classes = 11; }), "got 11");
  contains(fault([](auto& o) { o.img_size = 0; }), "0 pixels a side, expected 8 to 4096");
  contains(fault([](auto& o) { o.channels = 0; }), "0 channels");
  contains(fault([](auto& o) { o.count = -1; }), "-1 images");
}

TEST_CASE("an outline covers what lies inside it, up to its bounds") {
  OutlineFill fill;
  for (int kind = 0; kind < kOutlines; ++kind) {
    INFO(outline_name(kind));
    const Outline outline = transformed(make_outline(kind), 20, 0.3f, 30, 28);
    const Box box = bounds(outline);
    std::vector<float> coverage(60 * 56, 0.0f);
    fill(outline, 56, 60, coverage.data());
    double area = 0;
    for (const auto& polygon : outline) {
      double a = 0;  // shoelace formula
      for (std::size_t i = 0; i < polygon.size(); ++i) {
        const Point &p = polygon[i], &q = polygon[(i + 1) % polygon.size()];
        a += 0.5 * (double{p.x} * q.y - double{q.x} * p.y);
      }
      area += (&polygon == &outline[0] ? 1 : -1) * std::abs(a);
    }
    double covered = 0;
    Box seen{99, 99, 0, 0};
    for (int y = 0; y < 56; ++y)
      for (int x = 0; x < 60; ++x) {
        const float v = coverage[static_cast<std::size_t>(y) * 60 + static_cast<std::size_t>(x)];
        REQUIRE(v >= 0);
        REQUIRE(v <= 1.0001f);
        covered += v;
        if (v <= 0) continue;
        seen.x0 = std::min(seen.x0, float(x)), seen.x1 = std::max(seen.x1, float(x + 1));
        seen.y0 = std::min(seen.y0, float(y)), seen.y1 = std::max(seen.y1, float(y + 1));
      }
    CHECK(covered == doctest::Approx(area).epsilon(0.01));
    CHECK(std::abs(seen.x0 - box.x0) <= 1.5f);
    CHECK(std::abs(seen.y0 - box.y0) <= 1.5f);
    CHECK(std::abs(seen.x1 - box.x1) <= 1.5f);
    CHECK(std::abs(seen.y1 - box.y1) <= 1.5f);
  }
}

TEST_CASE("an outline that reaches over the image's edges is cut there") {
  OutlineFill fill;
  std::vector<float> coverage(8 * 8, 0.0f);
  fill(transformed(make_outline(1), 40, 0, 4, 4), 8, 8, coverage.data());
  for (const float v : coverage) CHECK(v == doctest::Approx(1));
}

}  // namespace
}  // namespace hg::testing
