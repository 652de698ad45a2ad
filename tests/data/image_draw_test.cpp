#include "data/image_draw.h"

#include <doctest/doctest.h>

#include "data/image_file.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

Image gray_field(int channels, int height, int width) {
  Image image;
  image.reshape(channels, height, width);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(i % 251);
  return image;
}

bool green(const Image& image, int y, int x) {
  return image.row(0, y)[x] == 0 && image.row(1, y)[x] == 255 && image.row(2, y)[x] == 0;
}

}  // namespace

TEST_CASE("draw_box frames the pixels that a box touches, and nothing else") {
  const Image before = gray_field(3, 20, 30);
  Image image = before;
  draw_box(image, {4.2f, 3, 15.5f, 11});
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 30; ++x) {
      const bool covered = x >= 4 && x <= 15 && y >= 3 && y <= 10;
      const bool frame = covered && (x == 4 || x == 15 || y == 3 || y == 10);
      INFO(x << "," << y);
      CHECK(green(image, y, x) == frame);
      if (!frame) CHECK(image.row(1, y)[x] == before.row(1, y)[x]);
    }
}

TEST_CASE("draw_box clips, thickens with the image, and shows a box without an area") {
  Image image = gray_field(3, 20, 30);
  draw_box(image, {-5, -7, 300, 400});
  CHECK(green(image, 0, 0));
  CHECK(green(image, 19, 29));
  CHECK(!green(image, 1, 1));
  Image point = gray_field(3, 20, 30);
  draw_box(point, {7, 8, 7, 8});
  CHECK(green(point, 8, 7));
  CHECK(!green(point, 9, 8));
  Image large = gray_field(3, 400, 320);
  draw_box(large, {100, 100, 200, 200});
  CHECK(green(large, 102, 150));
  CHECK(!green(large, 103, 150));
  CHECK(!green(large, 99, 150));
  Image gray = gray_field(1, 8, 8);
  draw_box(gray, {2, 2, 6, 6});
  CHECK(gray.row(0, 2)[2] == 255);
}

TEST_CASE("a PNG is read back as it was") {
  for (const auto& [height, width] : {std::pair{1, 1}, std::pair{13, 7}, std::pair{64, 65}}) {
    const Image image = gray_field(3, height, width);
    Image back;
    decode_image(encode_png(image), "test", back);
    CHECK(back.height == height);
    CHECK(back.width == width);
    CHECK(back.pixels == image.pixels);
  }
  const Image gray = gray_field(1, 5, 9);
  Image back;
  decode_image(encode_png(gray), "test", back);
  for (int c = 0; c < 3; ++c)
    CHECK(std::equal(gray.pixels.begin(), gray.pixels.end(), back.row(c, 0)));
  CHECK_THROWS_AS(encode_png(gray_field(2, 4, 4)), Error);
}

}  // namespace hg
