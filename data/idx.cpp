#include "data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "data/memory_dataset.h"
#include "tensor/error.h"

namespace hg {
namespace {

constexpr std::int64_t kMaxSide = 4096;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 32;
// Deflate cannot compress better than this, so a lying header is caught before memory is taken.
constexpr std::uint64_t kMaxDeflateRatio = 1032;

// A file read in order, plain or gzip, whichever it is.
class Reader {
 public:
  explicit Reader(const Path& path) : path_(path.string()), bytes_(size_of_file(path)) {
    file_ = gzopen(path_.c_str(), "rb");
    require(file_ != nullptr, path_, "cannot open: {}", std::strerror(errno));
    gzbuffer(file_, static_cast<unsigned>(std::clamp<std::uint64_t>(bytes_, 1 << 12, 1 << 18)));
  }
  ~Reader() { gzclose(file_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const std::string& path() const { return path_; }

  // Fewer bytes than asked for only at the end of the file.
  std::size_t read_some(std::uint8_t* to, std::size_t bytes) {
    constexpr std::size_t kChunk = 1 << 24;
    std::size_t got = 0;
    while (got < bytes) {
      const unsigned chunk = static_cast<unsigned>(std::min(kChunk, bytes - got));
      const int n = gzread(file_, to + got, chunk);
      check(n);
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }
  void read(std::uint8_t* to, std::size_t bytes) {
    const std::size_t got = read_some(to, bytes);
    require(got == bytes, path_, "ends early: expected {} bytes after offset {}, found {}", bytes,
            position_, got);
    position_ += bytes;
  }
  std::uint32_t read_big_endian() {
    std::array<std::uint8_t, 4> b;
    read(b.data(), b.size());
    return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
  }
  void expect_room_for(std::uint64_t bytes) {
    if (gzdirect(file_))
      require(bytes_ == position_ + bytes, path_, "{} bytes, expected {} as its header says",
              bytes_, position_ + bytes);
    else
      require(bytes / kMaxDeflateRatio <= bytes_, path_,
              "{} compressed bytes cannot hold the {} its header says", bytes_, bytes);
  }
  void expect_end() {
    std::uint8_t more;
    require(read_some(&more, 1) == 0, path_, "longer than the {} bytes its header says", position_);
  }

 private:
  void check(int result) {
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    // Z_BUF_ERROR is how zlib says that the compressed stream stops midway.
    if (result < 0 || code == Z_BUF_ERROR) fail(path_, "damaged or cut off gzip data: {}", message);
  }

  std::string path_;
  std::uint64_t bytes_;
  std::uint64_t position_ = 0;
  gzFile file_;
};

Path find_idx(const Path& folder, const std::string& name) {
  if (is_file(folder / name)) return folder / name;
  const Path compressed = folder / (name + ".gz");
  require(is_file(compressed), folder.string(), "expected the file {} or {}.gz", name, name);
  return compressed;
}

std::unique_ptr<Dataset> open_idx(DatasetInfo info, const Path& folder, Split split) {
  const std::string part = split == Split::train ? "train" : "t10k";
  const Path images_path = find_idx(folder, part + "-images-idx3-ubyte");
  const Path labels_path = find_idx(folder, part + "-labels-idx1-ubyte");
  IdxFile labels = read_idx(labels_path, 1);
  IdxFile images = read_idx(images_path, 3);
  require(labels.dims[0] == images.dims[0], labels_path.string(), "{} labels, but {} has {} images",
          labels.dims[0], images_path.string(), images.dims[0]);
  for (std::size_t i = 0; i < labels.values.size(); ++i)
    require(labels.values[i] < info.class_names.size(), labels_path.string(),
            "label {} of item {}, expected 0 to {}", labels.values[i], i,
            info.class_names.size() - 1);
  const int height = static_cast<int>(images.dims[1]), width = static_cast<int>(images.dims[2]);
  info.source = folder.string();
  return std::make_unique<MemoryDataset>(
      std::move(info), MemoryDataset::Layout{1, height, width, std::int64_t{height} * width, 0},
      std::move(images.values), std::move(labels.values));
}

}  // namespace

IdxFile read_idx(const Path& path, int rank) {
  Reader reader(path);
  const std::uint32_t magic = reader.read_big_endian();
  const std::uint32_t expected = 0x800u + static_cast<std::uint32_t>(rank);
  require(magic == expected, reader.path(), "magic number 0x{:08x}, expected 0x{:08x}", magic,
          expected);
  IdxFile file;
  std::int64_t bytes = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t extent = reader.read_big_endian();
    require(extent > 0, reader.path(), "dimension {} is 0, expected 1 or more", axis);
    require(axis == 0 || extent <= kMaxSide, reader.path(), "dimension {} is {}, expected 1 to {}",
            axis, extent, kMaxSide);
    require(bytes <= kMaxBytes / extent, reader.path(), "holds more than {} bytes by its header",
            kMaxBytes);
    bytes *= extent;
    file.dims.push_back(extent);
  }
  reader.expect_room_for(static_cast<std::uint64_t>(bytes));
  file.values.resize(static_cast<std::size_t>(bytes));
  reader.read(file.values.data(), file.values.size());
  reader.expect_end();
  return file;
}

std::unique_ptr<Dataset> open_mnist(const Path& folder, Split split) {
  DatasetInfo info;
  info.name = "mnist";
  info.class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  info.normalization = {{0.1307f}, {0.3081f}};
  info.mirrors = false;
  return open_idx(std::move(info), folder, split);
}

std::unique_ptr<Dataset> open_fashion_mnist(const Path& folder, Split split) {
  DatasetInfo info;
  info.name = "fashion-mnist";
  info.class_names = {"T-shirt/top", "trouser", "pullover", "dress", "coat",
                      "sandal",      "shirt",   "sneaker",  "bag",   "ankle boot"};
  info.normalization = {{0.2860f}, {0.3530f}};
  return open_idx(std::move(info), folder, split);
}

bool holds_idx(const Path& folder) {
  for (const char* part : {"train", "t10k"})
    for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"})
      for (const char* suffix : {"", ".gz"})
        if (is_file(folder / (std::string(part) + kind + suffix))) return true;
  return false;
}

}  // namespace hg
