#include "data/image_file.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tensor/error.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS 16384
// Zeroed, so that a damaged file that still decodes gives the same pixels each time.
#define STBI_MALLOC(bytes) std::calloc(1, bytes)
#define STBI_REALLOC(p, bytes) std::realloc(p, bytes)
#define STBI_FREE(p) std::free(p)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace hg {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 28;
constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;
// Deflate's best ratio on 1-bit pixels; JPEG and BMP need more bytes than that.
constexpr std::int64_t kMaxPixelsPerByte = 8 * 1032;

bool starts_with(std::span<const std::uint8_t> file, std::string_view magic) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

struct Free {
  void operator()(stbi_uc* p) const { stbi_image_free(p); }
};

void planes_from_interleaved(const std::uint8_t* rgb, Image& image) {
  const std::size_t n = image.plane();
  std::uint8_t* planes = image.pixels.data();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < 3; ++c) planes[c * n + i] = rgb[3 * i + c];
}

}  // namespace

void decode_image(std::span<const std::uint8_t> file, std::string_view name, Image& image) {
  require(
      starts_with(file, "\x89PNG") || starts_with(file, "\xff\xd8\xff") || starts_with(file, "BM"),
      name, "not a PNG, JPEG or BMP image");
  require(file.size() <= kMaxFileBytes, name, "{} bytes, expected at most {}", file.size(),
          kMaxFileBytes);
  const int bytes = static_cast<int>(file.size());
  int width = 0, height = 0, channels = 0;
  require(stbi_info_from_memory(file.data(), bytes, &width, &height, &channels) != 0, name,
          "damaged image header: {}", stbi_failure_reason());
  require(width > 0 && height > 0 && std::int64_t{width} * height <= kMaxPixels, name,
          "{}x{} pixels, expected 1 to {} in all", width, height, kMaxPixels);
  require(std::int64_t{width} * height <= bytes * kMaxPixelsPerByte, name,
          "{} bytes cannot hold the {}x{} pixels of its header", bytes, width, height);
  const std::unique_ptr<stbi_uc, Free> rgb(
      stbi_load_from_memory(file.data(), bytes, &width, &height, &channels, 3));
  require(rgb != nullptr, name, "damaged image: {}", stbi_failure_reason());
  image.reshape(3, height, width);
  planes_from_interleaved(rgb.get(), image);
}

void load_image(const Path& path, Bytes& file, Image& image) {
  read_file(path, kMaxFileBytes, file);
  decode_image(file, path.string(), image);
}

Image load_image(const Path& path) {
  Bytes file;
  Image image;
  load_image(path, file, image);
  return image;
}

}  // namespace hg
