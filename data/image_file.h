// Image files: PNG, JPEG and BMP, through stb_image, and WebP where libwebp is there.
#pragma once

#include <span>

#include "data/dataset.h"
#include "data/file.h"
#include "data/webp.h"

namespace hg {

inline constexpr const char* kImageFormats =
    kReadsWebp ? "PNG, JPEG, BMP or WebP" : "PNG, JPEG or BMP";

// RGB, whatever the file holds: gray is expanded, transparency dropped, 16 bits cut to 8.
Image load_image(const Path& path);

// The same into an image and with a working buffer that are reused.
void load_image(const Path& path, Bytes& file, Image& image);
void decode_image(std::span<const std::uint8_t> file, std::string_view name, Image& image);

}  // namespace hg
