#include "tests/data/files.h"

#include <libdeflate.h>
#include <stdlib.h>

#include <cstring>
#include <fstream>

#include "tests/support/mutate.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace hg::testing {
namespace {

std::string from_hex(const char* hex) {
  std::string bytes;
  for (; hex[0] && hex[1]; hex += 2) {
    const char pair[3] = {hex[0], hex[1], 0};
    bytes += static_cast<char>(std::strtol(pair, nullptr, 16));
  }
  return bytes;
}

void append(void* text, void* data, int size) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(data),
                                          static_cast<std::size_t>(size));
}

std::string interleaved_pixels(const Image& image) {
  std::string pixels;
  for (std::size_t i = 0; i < image.plane(); ++i)
    for (int c = 0; c < image.channels; ++c)
      pixels += static_cast<char>(image.pixels[static_cast<std::size_t>(c) * image.plane() + i]);
  return pixels;
}

}  // namespace

std::string big_endian(std::uint32_t v) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(v >> shift);
  return bytes;
}

std::string gzipped(const std::string& bytes) {
  libdeflate_compressor* const deflate = libdeflate_alloc_compressor(6);
  std::string out(libdeflate_gzip_compress_bound(deflate, bytes.size()), '\0');
  out.resize(libdeflate_gzip_compress(deflate, bytes.data(), bytes.size(), out.data(), out.size()));
  libdeflate_free_compressor(deflate);
  REQUIRE(!out.empty());
  return out;
}

void write(const Path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::remove(path);  // file systems sync a file that is cut and written again
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file.good());
}

Image patterned(int channels, int height, int width, int salt) {
  Image image;
  image.reshape(channels, height, width);
  for (int c = 0; c < channels; ++c)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        image.row(c, y)[x] =
            static_cast<std::uint8_t>(x * 37 + y * 91 + x * y * 13 + c * 50 + salt);
  return image;
}

std::string png(const Image& image) {
  std::string out;
  stbi_write_png_to_func(append, &out, image.width, image.height, image.channels,
                         interleaved_pixels(image).data(), 0);
  return out;
}
std::string bmp(const Image& image) {
  std::string out;
  stbi_write_bmp_to_func(append, &out, image.width, image.height, image.channels,
                         interleaved_pixels(image).data());
  return out;
}
std::string jpeg(const Image& image) {
  std::string out;
  stbi_write_jpg_to_func(append, &out, image.width, image.height, image.channels,
                         interleaved_pixels(image).data(), 95);
  return out;
}

// Made with Pillow from patterned(1, 8, 8): quality 90, optimize.
const std::string kWebp = from_hex(
    "524946462c000000574542505650384c200000002f06000100cd6444ff036ada3682e60229bef2df"
    "bf3b06b33d2531015c58f002");
const std::string kGrayJpeg = from_hex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300030202030202030303030403030405080505040405"
    "0a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc000"
    "0b080008000801011100ffc40014000100000000000000000000000000000005ffc4001d10000202020301000000"
    "0000000000000002030104050611131415ffda0008010100003f004f5ad3ac1693e4c56b1f32b4738e657c5625d5"
    "96c43ab532ee0a6d18f5299d83ca1ec7c98599012a8e6292cfffd9");
const std::string kProgressiveJpeg = from_hex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300030202030202030303030403030405080505040405"
    "0a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc200"
    "0b080008000801011100ffc40014000100000000000000000000000000000004ffda00080101000000014fffc400"
    "161001010100000000000000000000000000040214ffda000801010001050230eb17ffc4001f1001000103040300"
    "000000000000000000010203123204111321313342ffda0008010100063f02b6969b8e3eb634a931118c3bb1c877"
    "f0ae5f2a0fffc4001810010003010000000000000000000000000100113151ffda0008010100013f2147760c6543"
    "2374a0ccbfffda0008010100000010ff00ffc4001810000203000000000000000000000000000111002131ffda00"
    "08010100013f10ac7da92515a83a7c927fffd9");

std::string idx_images(int count, int height, int width) {
  std::string bytes = big_endian(0x803) + big_endian(static_cast<std::uint32_t>(count)) +
                      big_endian(static_cast<std::uint32_t>(height)) +
                      big_endian(static_cast<std::uint32_t>(width));
  for (int i = 0; i < count; ++i)
    for (const std::uint8_t v : patterned(1, height, width, i).pixels)
      bytes += static_cast<char>(v);
  return bytes;
}

std::string idx_labels(std::initializer_list<int> labels) {
  std::string bytes = big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size()));
  for (const int label : labels) bytes += static_cast<char>(label);
  return bytes;
}

std::string cifar_records(int label_bytes, std::initializer_list<int> labels) {
  std::string bytes;
  int salt = 0;
  for (const int label : labels) {
    bytes += std::string(static_cast<std::size_t>(label_bytes - 1), '\3');
    bytes += static_cast<char>(label);
    for (const std::uint8_t v : patterned(3, 32, 32, salt++).pixels) bytes += static_cast<char>(v);
  }
  return bytes;
}

std::string fault_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    const std::string message = e.what();
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  FAIL("expected an error");
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

int survivors(const std::string& bytes, int count,
              const std::function<void(const std::string&)>& f) {
  RandomStream random(7, "mutations");
  int passed = 0;
  for (int i = 0; i < count; ++i) {
    const std::string damaged = mutate(bytes, random);
    try {
      f(damaged);
      ++passed;
    } catch (const Error& e) {
      REQUIRE(std::strlen(e.what()) > 0);
    }
  }
  return passed;
}

}  // namespace hg::testing
