// WebP images, where libwebp is there.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "data/dataset.h"

namespace hg {

inline constexpr bool kReadsWebp =
#ifdef HG_WEBP
    true;
#else
    false;
#endif

bool is_webp(std::span<const std::uint8_t> file);
// Throws Error where the file is damaged, or libwebp is not there.
void decode_webp(std::span<const std::uint8_t> file, std::string_view name, Image& image);

}  // namespace hg
