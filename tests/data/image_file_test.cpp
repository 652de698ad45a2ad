#include "data/image_file.h"

#include <cstdlib>

#include "tests/data/files.h"

namespace hg::testing {
namespace {

std::span<const std::uint8_t> as_bytes(const std::string& s) {
  return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}
Image decoded(const std::string& file) {
  Image image;
  decode_image(as_bytes(file), "file", image);
  return image;
}
int largest_difference(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST_CASE("PNG and BMP decode without loss, from names with spaces too") {
  const Image image = patterned(3, 5, 7);
  for (const std::string& file : {png(image), bmp(image)}) {
    TempFolder folder;
    write(folder / "a name with spaces", file);
    const Image got = load_image(folder / "a name with spaces");
    CHECK(got.channels == 3);
    CHECK(got.height == 5);
    CHECK(got.width == 7);
    CHECK(got.pixels == image.pixels);
    CHECK(decoded(file + "more bytes at the end").pixels == image.pixels);
  }
}

TEST_CASE("images of one, two and four channels become RGB") {
  for (const int channels : {1, 2, 4}) {
    const Image image = patterned(channels, 4, 6);
    const Image got = decoded(png(image));
    REQUIRE(got.channels == 3);
    for (int c = 0; c < 3; ++c)
      for (int x = 0; x < 6; ++x) CHECK(got.row(c, 3)[x] == image.row(channels == 4 ? c : 0, 3)[x]);
  }
}

TEST_CASE("JPEG decodes: RGB, one component, progressive") {
  Image smooth;
  smooth.reshape(3, 16, 16);
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 16; ++y)
      for (int x = 0; x < 16; ++x)
        smooth.row(c, y)[x] = static_cast<std::uint8_t>(40 + 6 * x + 4 * y + 20 * c);
  CHECK(largest_difference(decoded(jpeg(smooth)).pixels, smooth.pixels) <= 8);
  for (const std::string& file : {kGrayJpeg, kProgressiveJpeg}) {
    const Image got = decoded(file);
    REQUIRE(got.channels == 3);
    CHECK(got.width == 8);
    const Image original = patterned(1, 8, 8);
    for (int c = 0; c < 3; ++c) {
      const Bytes plane(got.row(c, 0), got.row(c, 0) + 64);
      CHECK(largest_difference(plane, original.pixels) <= 10);
    }
  }
}

TEST_CASE("WebP decodes where libwebp is there, and is refused by name elsewhere") {
  if (!kReadsWebp) {
    contains(fault_of([] { decoded(kWebp); }), "libwebp");
    return;
  }
  const Image got = decoded(kWebp);
  CHECK(got.channels == 3);
  CHECK(got.height == 5);
  CHECK(got.width == 7);
  for (int y = 0; y < 5; ++y)
    for (int x = 0; x < 7; ++x)
      for (int c = 0; c < 3; ++c)
        CHECK(got.row(c, y)[x] == static_cast<std::uint8_t>(37 * (3 * (7 * y + x) + c)));
  contains(fault_of([] { decoded(kWebp.substr(0, 30)); }), "damaged image");
  survivors(kWebp, 500, [](const std::string& file) { decoded(file); });
}

TEST_CASE("an image wider than any screen decodes") {
  const Image image = patterned(1, 1, 40000);
  CHECK(decoded(png(image)).row(0, 0)[39999] == image.row(0, 0)[39999]);
}

TEST_CASE("what is no image, or a cut off or absurd one, is an error") {
  contains(fault_of([] { decoded(""); }), "file: not a PNG, JPEG");
  contains(fault_of([] { decoded("GIF89a and so on"); }), "not a PNG, JPEG");
  const std::string good = png(patterned(3, 8, 8));
  contains(fault_of([&] { decoded(good.substr(0, 20)); }), "damaged image");
  contains(fault_of([&] { decoded(good.substr(0, good.size() / 2)); }), "damaged image");
  const std::string photo = jpeg(patterned(3, 16, 16));
  contains(fault_of([&] { decoded(photo.substr(0, photo.size() - 40)); }), "damaged image");
  contains(fault_of([&] { decoded(kGrayJpeg.substr(0, kGrayJpeg.size() - 10)); }), "damaged image");
  std::string huge = good;
  huge.replace(16, 8, big_endian(16000) + big_endian(4000));
  contains(fault_of([&] { decoded(huge); }), "cannot hold the 16000x4000 pixels");
  huge.replace(16, 8, big_endian(17000) + big_endian(17000));
  contains(fault_of([&] { decoded(huge); }), "17000x17000 pixels, expected 1 to 268435456");
  std::string none = good;
  none.replace(16, 8, big_endian(0) + big_endian(8));
  contains(fault_of([&] { decoded(none); }), "damaged image header");
  contains(fault_of([] { load_image("/nowhere/at all.png"); }),
           "/nowhere/at all.png: cannot read: No such file");
  contains(fault_of([] { load_image("/dev/null"); }), "not a regular file");
}

TEST_CASE("a JPEG with a Huffman table of too many codes is an error") {
  std::string file = kGrayJpeg;
  const std::size_t table = file.find("\xff\xc4");
  REQUIRE(table != std::string::npos);
  for (std::size_t i = 0; i < 16; ++i) file[table + 5 + i] = '\xff';
  contains(fault_of([&] { decoded(file); }), "Huffman table of 4097 bytes");
  file.insert(table + 21, 5000, '\1');  // now there is room for it
  file.replace(table + 2, 2, "\x13\x9b");
  contains(fault_of([&] { decoded(file); }), "expected at most 273");
}

TEST_CASE("what a damaged image is quoted with is printable") {
  std::string file = png(patterned(1, 5, 6));
  file.replace(file.find("IEND"), 4, "I\n\x1b\1");
  contains(fault_of([&] { decoded(file); }), "I\\x0a\\x1b\\x01");
}

void check_survival(const std::vector<std::string>& files, int count_each) {
  for (const std::string& file : files) {
    const int passed = survivors(file, count_each, [](const std::string& damaged) {
      const Image got = decoded(damaged);
      REQUIRE(got.pixels.size() == 3 * got.plane());
    });
    CHECK(passed > 0);
    CHECK(passed < count_each);
  }
}

TEST_CASE("PNG decoder survives damaged files") {
  check_survival({png(patterned(3, 6, 5)), png(patterned(4, 3, 9))}, 300);
}
TEST_CASE("BMP decoder survives damaged files") { check_survival({bmp(patterned(3, 6, 5))}, 300); }
TEST_CASE("JPEG decoder survives damaged files") {
  check_survival({jpeg(patterned(3, 6, 5)), kGrayJpeg, kProgressiveJpeg}, 300);
}

}  // namespace
}  // namespace hg::testing
