// Files that may be compressed with gzip. libdeflate unpacks a whole file at once, three times as
// fast as zlib: a data set is open in a tenth of a second.
#include <libdeflate.h>

#include <algorithm>
#include <memory>

#include "data/file.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr std::uint64_t kMaxDeflateRatio = 1032;  // no stream unpacks to more bytes per byte

bool is_gzip(const Bytes& bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// A gzip file of one member ends with its unpacked size modulo 2^32: a first guess.
std::uint64_t size_at_end(const Bytes& packed) {
  std::uint64_t size = 0;
  for (std::size_t i = 1; i <= 4 && i <= packed.size(); ++i)
    size = size << 8 | packed[packed.size() - i];
  return size;
}

Bytes unpack(const std::string& path, const Bytes& packed, std::uint64_t max_bytes) {
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> inflate(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  const std::uint64_t most = std::min(max_bytes, packed.size() * kMaxDeflateRatio);
  Bytes out(std::clamp<std::uint64_t>(size_at_end(packed), 1, std::max<std::uint64_t>(most, 1)));
  std::size_t read = 0, written = 0;
  while (read < packed.size()) {
    std::size_t taken = 0, made = 0;
    const libdeflate_result result =
        libdeflate_gzip_decompress_ex(inflate.get(), packed.data() + read, packed.size() - read,
                                      out.data() + written, out.size() - written, &taken, &made);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
      require(out.size() < most, path, "gzip data unpacks to more than {} bytes", most);
      out.resize(std::min<std::uint64_t>(most, out.size() * 2));
      continue;
    }
    require(result == LIBDEFLATE_SUCCESS, path, "damaged or cut off gzip data at byte {} of {}",
            read, packed.size());
    read += taken, written += made;
  }
  out.resize(written);
  return out;
}

}  // namespace

Bytes read_maybe_gzip(const Path& path, std::uint64_t max_bytes) {
  Bytes bytes;
  read_file(path, max_bytes, bytes);
  return is_gzip(bytes) ? unpack(path.string(), bytes, max_bytes) : bytes;
}

}  // namespace hg
