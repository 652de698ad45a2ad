#include "data/transforms.h"

#include <array>
#include <set>

#include "data/patch_select.h"
#include "tests/data/files.h"

namespace hg::testing {
namespace {

using Values = std::vector<int>;

Values resized(int width, int height, int new_width, int new_height) {
  Image out;
  Resizer()(patterned(1, height, width), new_height, new_width, out);
  return Values(out.pixels.begin(), out.pixels.end());
}

// Values of Pillow 9.4: Image.resize((w, h), BILINEAR).
TEST_CASE("resize equals Pillow's, larger, smaller, each way alone") {
  CHECK(resized(5, 4, 3, 7) == Values{16,  74,  132, 50,  116, 129, 105, 183, 124, 161, 150,
                                      137, 198, 113, 150, 107, 148, 145, 50,  169, 142});
  CHECK(resized(7, 7, 3, 3) == Values{108, 139, 141, 122, 149, 138, 108, 144, 135});
  CHECK(resized(3, 2, 8, 5) == Values{0,   2,   16,  30,  44,  58,  72,  74,  9,   11,
                                      26,  40,  55,  69,  84,  86,  46,  48,  65,  81,
                                      97,  114, 130, 133, 82,  85,  103, 122, 139, 158,
                                      176, 179, 91,  94,  113, 132, 150, 169, 188, 191});
  CHECK(resized(9, 3, 4, 3) == Values{31, 106, 172, 61, 132, 171, 99, 194, 183, 125, 163, 122});
  CHECK(resized(4, 6, 4, 2) == Values{82, 135, 124, 178, 117, 139, 97, 183});
}

// The definition, pixel by pixel: along x first, rounded, then along y.
Bytes plainly_resized(const Bytes& row, int size) {
  const int n = static_cast<int>(row.size());
  const double scale = double(n) / size, support = std::max(1.0, scale);
  Bytes out;
  for (int j = 0; j < size; ++j) {
    const double center = (j + 0.5) * scale;
    const int begin = std::max(0, int(center - support + 0.5));
    const int end = std::min(n, int(center + support + 0.5));
    std::vector<double> w;
    double total = 0;
    for (int i = begin; i < end; ++i) {
      w.push_back(std::max(0.0, 1 - std::abs((i - center + 0.5) * (1 / support))));
      total += w.back();
    }
    std::int32_t sum = 1 << 21;
    for (int i = begin; i < end; ++i)
      sum += static_cast<std::int32_t>(0.5 +
                                       w[static_cast<std::size_t>(i - begin)] / total * (1 << 22)) *
             row[static_cast<std::size_t>(i)];
    out.push_back(static_cast<std::uint8_t>(sum >> 22));
  }
  return out;
}

TEST_CASE("resize equals its definition at sizes around the vectors' lengths") {
  Resizer resize;
  Image out;
  RandomStream random(3, "pixels");
  for (const auto& [height, width, new_height, new_width] :
       {std::array{37, 41, 70, 19}, std::array{64, 64, 224, 224}, std::array{66, 8, 15, 65},
        std::array{7, 130, 9, 64}}) {
    Image in;
    in.reshape(3, height, width);
    for (std::uint8_t& v : in.pixels) v = static_cast<std::uint8_t>(random.bits());
    resize(in, new_height, new_width, out);
    Image between;
    between.reshape(3, height, new_width);
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < height; ++y) {
        const Bytes row = plainly_resized(Bytes(in.row(c, y), in.row(c, y) + width), new_width);
        std::copy(row.begin(), row.end(), between.row(c, y));
      }
    for (int c = 0; c < 3; ++c)
      for (int x = 0; x < new_width; ++x) {
        Bytes column, got;
        for (int y = 0; y < height; ++y) column.push_back(between.row(c, y)[x]);
        for (int y = 0; y < new_height; ++y) got.push_back(out.row(c, y)[x]);
        REQUIRE(got == plainly_resized(column, new_height));
      }
  }
}

TEST_CASE("resize: same size copies, a flat image stays flat, one object serves many sizes") {
  Resizer resize;
  Image out;
  const Image image = patterned(3, 5, 9);
  resize(image, 5, 9, out);
  CHECK(out.pixels == image.pixels);
  Image flat = image;
  std::fill(flat.pixels.begin(), flat.pixels.end(), 255);
  for (const int size : {1, 2, 13, 40, 3}) {
    resize(flat, size, size + 1, out);
    for (const std::uint8_t v : out.pixels) REQUIRE(v == 255);
  }
  Image empty;
  contains(fault_of([&] { resize(empty, 4, 4, out); }), "resize: an image of 0x0x0");
  contains(fault_of([&] { resize(image, 0, 4, out); }), "resize: to 0x4");
}

TEST_CASE("channels: gray to RGB and back, anything else is an error") {
  Image rgb, gray;
  convert_channels(patterned(1, 4, 5), 3, rgb);
  CHECK(rgb.channels == 3);
  convert_channels(rgb, 1, gray);
  CHECK(gray.pixels == patterned(1, 4, 5).pixels);
  Image red;
  red.reshape(3, 1, 2);
  red.pixels = {255, 0, 0, 255, 0, 0};
  convert_channels(red, 1, gray);
  CHECK(gray.pixels[0] == 76);   // 0.299 * 255
  CHECK(gray.pixels[1] == 150);  // 0.587 * 255
  contains(fault_of([&] { convert_channels(red, 2, gray); }), "an image of 3 channels to 2");
}

TEST_CASE("fit gives the image itself when nothing is to be done") {
  Fit fit(6, 3);
  const Image fits = patterned(3, 6, 6), small_gray = patterned(1, 3, 3);
  CHECK(&fit(fits) == &fits);
  const Image& grown = fit(small_gray);
  CHECK(grown.channels == 3);
  CHECK(grown.height == 6);
  CHECK(grown.pixels[0] == grown.pixels[36]);
  Fit to_small_gray(4, 1);
  const Image& small = to_small_gray(fits);
  CHECK(small.channels == 1);
  CHECK(small.width == 4);
}

Values augmented(const Augmentation& how) {
  Image image;
  image.reshape(1, 3, 3);
  image.pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Bytes out(9, 99);
  augment(image, how, out.data());
  return Values(out.begin(), out.end());
}

TEST_CASE("augment shifts with a black border and mirrors") {
  CHECK(augmented({0, 0, false}) == Values{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(augmented({0, 0, true}) == Values{3, 2, 1, 6, 5, 4, 9, 8, 7});
  CHECK(augmented({1, 0, false}) == Values{2, 3, 0, 5, 6, 0, 8, 9, 0});
  CHECK(augmented({-1, 1, false}) == Values{0, 4, 5, 0, 7, 8, 0, 0, 0});
  CHECK(augmented({1, -2, true}) == Values{0, 0, 0, 0, 0, 0, 0, 3, 2});
  CHECK(augmented({3, 5, false}) == Values(9, 0));
}

TEST_CASE("augmentation draws cover the border both ways and depend on the index alone") {
  std::set<int> dx, dy;
  int mirrored = 0;
  for (int i = 0; i < 1000; ++i) {
    const Augmentation a = draw_augmentation(5, i, 32, true);
    dx.insert(a.dx), dy.insert(a.dy);
    mirrored += a.mirror;
    CHECK(draw_augmentation(5, i, 32, false).dx == a.dx);
    CHECK(!draw_augmentation(5, i, 32, false).mirror);
  }
  CHECK(dx == std::set<int>{-4, -3, -2, -1, 0, 1, 2, 3, 4});
  CHECK(dy == dx);
  CHECK(mirrored > 430);
  CHECK(mirrored < 570);
}

void check_box(const UnitBox& b, float x0, float y0, float x1, float y1, bool valid) {
  CHECK(b.x0 == doctest::Approx(x0));
  CHECK(b.y0 == doctest::Approx(y0));
  CHECK(b.x1 == doctest::Approx(x1));
  CHECK(b.y1 == doctest::Approx(y1));
  CHECK(b.valid == valid);
}

TEST_CASE("boxes go with their image and are dropped when too little is left") {
  const Box box{16, 0, 48, 32};  // of 64x64
  check_box(place_box(box, 64, 64, 32, {}), 0.25f, 0, 0.75f, 0.5f, true);
  check_box(place_box(box, 128, 64, 32, {}), 0.125f, 0, 0.375f, 0.5f, true);
  check_box(place_box(box, 64, 64, 32, {0, 0, true}), 0.25f, 0, 0.75f, 0.5f, true);
  check_box(place_box({0, 0, 16, 64}, 64, 64, 32, {0, 0, true}), 0.75f, 0, 1, 1, true);
  check_box(place_box(box, 64, 64, 32, {4, 4, false}), 0.125f, 0, 0.625f, 0.375f, true);
  check_box(place_box(box, 64, 64, 32, {4, 4, true}), 0.375f, 0, 0.875f, 0.375f, true);
  check_box(place_box({0, 0, 8, 64}, 64, 64, 32, {3, 0, false}), 0, 0, 0.03125f, 1, true);
  check_box(place_box({0, 0, 7, 64}, 64, 64, 32, {3, 0, false}), 0, 0, 0.015625f, 1, false);
  check_box(place_box({0, 0, 4, 4}, 64, 64, 32, {4, 0, false}), 0, 0, 0, 0.0625f, false);
  check_box(place_box({3, 1, 4, 5}, 64, 64, 64, {}), 3 / 64.f, 1 / 64.f, 4 / 64.f, 5 / 64.f, true);
}

// The smallest box around all pixels that are not black.
Box seen_box(const Bytes& pixels, int size) {
  Box seen{static_cast<float>(size), static_cast<float>(size), 0, 0};
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x)
      if (pixels[static_cast<std::size_t>(y * size + x)] != 0) {
        seen.x0 = std::min(seen.x0, static_cast<float>(x));
        seen.y0 = std::min(seen.y0, static_cast<float>(y));
        seen.x1 = std::max(seen.x1, static_cast<float>(x + 1));
        seen.y1 = std::max(seen.y1, static_cast<float>(y + 1));
      }
  return seen;
}

TEST_CASE("boxes stay around their pixels under any augmentation, as part of them is cropped off") {
  constexpr int kSize = 16;
  const Box objects[] = {{0, 0, 3, 3}, {5, 2, 11, 9}, {14, 1, 16, 16}, {0, 12, 16, 16}};
  int dropped = 0;
  for (const Box& object : objects) {
    Image image;  // wider than the model's, by a whole factor: resizing keeps edges
    image.reshape(1, kSize, 2 * kSize);
    std::fill(image.pixels.begin(), image.pixels.end(), 0);
    for (int y = static_cast<int>(object.y0); y < static_cast<int>(object.y1); ++y)
      for (int x = 2 * static_cast<int>(object.x0); x < 2 * static_cast<int>(object.x1); ++x)
        image.row(0, y)[x] = 255;
    Resizer resize;
    Image fitted;
    resize(image, kSize, kSize, fitted);
    for (std::uint8_t& v : fitted.pixels) v = v > 127 ? 255 : 0;  // what antialiasing spreads
    const Box in_file{2 * object.x0, object.y0, 2 * object.x1, object.y1};
    for (int dx = -8; dx <= 8; ++dx)
      for (int dy = -8; dy <= 8; ++dy)
        for (const bool mirror : {false, true}) {
          const Augmentation how{dx, dy, mirror};
          Bytes pixels(kSize * kSize);
          augment(fitted, how, pixels.data());
          const Box seen = seen_box(pixels, kSize);
          const UnitBox placed = place_box(in_file, 2 * kSize, kSize, kSize, how);
          CAPTURE(dx);
          CAPTURE(dy);
          CHECK(placed.valid == (seen.area() >= object.area() / 4 && seen.area() > 0));
          dropped += !placed.valid;
          if (seen.area() == 0) continue;
          CHECK(placed.x0 * kSize == doctest::Approx(seen.x0));
          CHECK(placed.y0 * kSize == doctest::Approx(seen.y0));
          CHECK(placed.x1 * kSize == doctest::Approx(seen.x1));
          CHECK(placed.y1 * kSize == doctest::Approx(seen.y1));
        }
  }
  CHECK(dropped > 0);
}

TEST_CASE("normalisation, and its form for other channels") {
  const Normalization colour{{0.5f, 0.4f, 0.3f}, {0.2f, 0.25f, 0.5f}};
  const Bytes pixels{0, 255, 51, 102, 153, 204};
  float out[6];
  Normalizer normalizer(colour);
  normalizer(pixels.data(), 2, out);
  CHECK(out[0] == doctest::Approx(-2.5));
  CHECK(out[1] == doctest::Approx(2.5));
  CHECK(out[2] == doctest::Approx((0.2 - 0.4) / 0.25));
  CHECK(out[5] == doctest::Approx((0.8 - 0.3) / 0.5));
  CHECK(colour.for_channels(1).mean[0] == doctest::Approx(0.4185));
  CHECK(Normalization{{0.1f}, {0.3f}}.for_channels(3).stddev == std::vector<float>(3, 0.3f));
  contains(fault_of([&] { colour.for_channels(2); }), "in_channels: 2, but the images have 3");
  contains(fault_of([] { Normalizer(Normalization{{0}, {0}}); }), "standard deviation 0");
  const Tensor input = to_input(patterned(1, 9, 5), 4, 3, colour).images;
  CHECK(input.shape() == Shape{1, 3, 4, 4});
}

}  // namespace
}  // namespace hg::testing
