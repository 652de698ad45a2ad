#include "data/webp.h"

#include <cstring>
#include <memory>

#include "tensor/base/error.h"

#ifdef HG_WEBP
#include <webp/decode.h>
#endif

namespace hg {

bool is_webp(std::span<const std::uint8_t> file) {
  return file.size() >= 12 && std::memcmp(file.data(), "RIFF", 4) == 0 &&
         std::memcmp(file.data() + 8, "WEBP", 4) == 0;
}

#ifdef HG_WEBP
void decode_webp(std::span<const std::uint8_t> file, std::string_view name, Image& image) {
  int width = 0, height = 0;
  require(WebPGetInfo(file.data(), file.size(), &width, &height) != 0, name,
          "damaged image header, or an animation");
  const std::unique_ptr<std::uint8_t, decltype(&WebPFree)> rgb(
      WebPDecodeRGB(file.data(), file.size(), &width, &height), &WebPFree);
  require(rgb != nullptr, name, "damaged image, or an animation");
  image.reshape(3, height, width);
  image.take_interleaved(rgb.get());
}
#else
void decode_webp(std::span<const std::uint8_t>, std::string_view name, Image&) {
  fail(name, "a WebP image, which this program was built without libwebp to read");
}
#endif

}  // namespace hg
