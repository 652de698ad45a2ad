#include "data/image_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "data/webp.h"
#include "tensor/base/error.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
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

// What stb_image can count: bytes of a file in an int, bytes of pixels up to 2^30.
constexpr std::uint64_t kMaxFileBytes = std::numeric_limits<int>::max();
constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

struct Format {
  const char* magic;
  std::int64_t max_pixels_per_byte;
};
constexpr Format kFormats[] = {
    {"\x89PNG", 8 * 1032},     // 1 bit a pixel at the best ratio of deflate
    {"\xff\xd8\xff", 8 * 64},  // 1 bit a block of 8x8
    {"BM", 8},
};

const Format* format_of(std::span<const std::uint8_t> file) {
  for (const Format& format : kFormats) {
    const std::size_t n = std::strlen(format.magic);
    if (file.size() >= n && std::memcmp(file.data(), format.magic, n) == 0) return &format;
  }
  return nullptr;
}

// A chunk is its length, a type of four letters, that many bytes and a checksum. stb_image would
// allocate any length that a damaged file claims.
void check_png(std::span<const std::uint8_t> file, std::string_view name) {
  std::size_t at = 8;
  while (at + 12 <= file.size()) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | file[at + i];
    require(length <= file.size() - at - 12, name,
            "damaged image: a chunk of {} bytes at offset {} of {}", length, at, file.size());
    if (std::memcmp(&file[at + 4], "IEND", 4) == 0) return;
    at += 12 + length;
  }
}

// The Huffman tables of a JPEG's DHT segment must have at most 256 codes each, and fill the
// segment.
void check_huffman_tables(std::span<const std::uint8_t> segment, std::string_view name) {
  while (!segment.empty()) {
    std::size_t size = 17;  // class and number, then 16 counts of codes, then the codes
    for (std::size_t i = 1; i < 17 && i < segment.size(); ++i) size += segment[i];
    require(size <= std::min<std::size_t>(17 + 256, segment.size()), name,
            "damaged image: a Huffman table of {} bytes in {}, expected at most {}", size,
            segment.size(), 17 + 256);
    segment = segment.subspan(size);
  }
}

// stb_image 2.27 writes past its tables when a DHT segment is damaged, so it is checked before.
void check_jpeg(std::span<const std::uint8_t> file, std::string_view name) {
  constexpr std::uint8_t kTables = 0xc4, kEnd = 0xd9, kRestart = 0xd0, kLastRestart = 0xd7;
  std::size_t at = 2;
  while (at + 4 <= file.size()) {
    const std::uint8_t code = file[at + 1];
    const bool data = code == 0 || code == 0xff || (code >= kRestart && code <= kLastRestart);
    if (file[at] != 0xff || data) {  // compressed data or padding
      ++at;
      continue;
    }
    if (code == kEnd) return;
    const std::size_t length = std::size_t{file[at + 2]} << 8 | file[at + 3];
    const std::size_t next = at + 2 + length;
    require(length >= 2 && next <= file.size(), name,
            "damaged image: a segment of {} bytes at offset {} of {}", length, at, file.size());
    if (code == kTables) check_huffman_tables(file.subspan(at + 4, length - 2), name);
    at = next;
  }
}

// stb_image reads zeros past the end of a file.
void check_bmp(std::span<const std::uint8_t> file, std::string_view name) {
  const auto field = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t v = 0;
    for (std::size_t i = bytes; i-- > 0;) v = v << 8 | (at + i < file.size() ? file[at + i] : 0);
    return v;
  };
  const bool old = field(14, 4) == 12;  // 16-bit sizes
  const std::uint64_t width = old ? field(18, 2) : field(18, 4), bits = field(old ? 24 : 28, 2);
  const auto rows = old ? static_cast<std::int64_t>(field(20, 2))
                        : std::abs(std::int64_t{static_cast<std::int32_t>(field(22, 4))});
  const std::uint64_t needed =
      field(10, 4) + (width * bits + 31) / 32 * 4 * static_cast<std::uint64_t>(rows);
  require(file.size() >= needed, name, "damaged image: {} bytes, expected {}", file.size(), needed);
}

// Why the last call failed; stb_image does not always say, and may quote the file.
std::string failure_reason() {
  const char* reason = stbi_failure_reason();
  return reason ? printable(reason) : "unreadable";
}

struct Free {
  void operator()(stbi_uc* p) const { stbi_image_free(p); }
};

}  // namespace

void decode_image(std::span<const std::uint8_t> file, std::string_view name, Image& image) {
  if (is_webp(file)) return decode_webp(file, name, image);
  const Format* format = format_of(file);
  require(format != nullptr, name, "not a {} image", kImageFormats);
  require(file.size() <= kMaxFileBytes, name, "{} bytes, expected at most {}", file.size(),
          kMaxFileBytes);
  if (file[0] == 0xff) check_jpeg(file, name);
  if (file[0] == 0x89) check_png(file, name);
  if (file[0] == 'B') check_bmp(file, name);
  const int bytes = static_cast<int>(file.size());
  int width = 0, height = 0, channels = 0;
  stbi__g_failure_reason = nullptr;
  require(stbi_info_from_memory(file.data(), bytes, &width, &height, &channels) != 0, name,
          "damaged image header: {}", failure_reason());
  require(width > 0 && height > 0 && std::int64_t{width} * height <= kMaxPixels, name,
          "{}x{} pixels, expected 1 to {} in all", width, height, kMaxPixels);
  require(std::int64_t{width} * height <= bytes * format->max_pixels_per_byte, name,
          "{} bytes cannot hold the {}x{} pixels of its header", bytes, width, height);
  const std::unique_ptr<stbi_uc, Free> rgb(
      stbi_load_from_memory(file.data(), bytes, &width, &height, &channels, 3));
  require(rgb != nullptr, name, "damaged image: {}", failure_reason());
  image.reshape(3, height, width);
  image.take_interleaved(rgb.get());
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
