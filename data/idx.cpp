// MNIST and Fashion-MNIST.
#include "data/memory_dataset.h"
#include "data/sets.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr std::int64_t kMaxSide = 4096;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 32;

// The big-endian number at `offset`.
std::uint32_t number_at(const std::string& path, const Bytes& bytes, std::size_t offset) {
  require(offset + 4 <= bytes.size(), path, "ends early: {} bytes, expected a header",
          bytes.size());
  const std::uint8_t* b = bytes.data() + offset;
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

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
  labels.bytes.erase(labels.bytes.begin(), labels.bytes.begin() + labels.header);
  for (std::size_t i = 0; i < labels.bytes.size(); ++i)
    require(labels.bytes[i] < info.class_names.size(), labels_path.string(),
            "label {} of item {}, expected 0 to {}", labels.bytes[i], i,
            info.class_names.size() - 1);
  const int height = static_cast<int>(images.dims[1]), width = static_cast<int>(images.dims[2]);
  return std::make_unique<MemoryDataset>(
      std::move(info),
      MemoryDataset::Layout{1, height, width, std::int64_t{height} * width, images.header},
      std::move(images.bytes), std::move(labels.bytes));
}

}  // namespace

IdxFile read_idx(const Path& path, int rank) {
  const std::string name = path.string();
  IdxFile file;
  file.bytes = read_maybe_gzip(path, kMaxBytes);
  const std::uint32_t magic = number_at(name, file.bytes, 0);
  const std::uint32_t expected = 0x800u + static_cast<std::uint32_t>(rank);
  require(magic == expected, name, "magic number 0x{:08x}, expected 0x{:08x}", magic, expected);
  std::int64_t values = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t extent = number_at(name, file.bytes, 4 + 4 * static_cast<std::size_t>(axis));
    require(extent > 0, name, "dimension {} is 0, expected 1 or more", axis);
    require(axis == 0 || extent <= kMaxSide, name, "dimension {} is {}, expected 1 to {}", axis,
            extent, kMaxSide);
    require(values <= kMaxBytes / extent, name, "holds more than {} bytes by its header",
            kMaxBytes);
    values *= extent;
    file.dims.push_back(extent);
  }
  file.header = 4 + 4 * rank;
  require(static_cast<std::int64_t>(file.bytes.size()) == file.header + values, name,
          "{} bytes, expected {} as its header says", file.bytes.size(), file.header + values);
  return file;
}

std::unique_ptr<Dataset> open_mnist(const Path& folder, Split split) {
  return open_idx({.name = "mnist",
                   .source = folder.string(),
                   .class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                   .normalization = {{0.1307f}, {0.3081f}},
                   .mirrors = false},
                  folder, split);
}

std::unique_ptr<Dataset> open_fashion_mnist(const Path& folder, Split split) {
  return open_idx({.name = "fashion-mnist",
                   .source = folder.string(),
                   .class_names = {"T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal",
                                   "shirt", "sneaker", "bag", "ankle boot"},
                   .normalization = {{0.2860f}, {0.3530f}}},
                  folder, split);
}

bool holds_idx(const Path& folder) {
  for (const char* part : {"train", "t10k"})
    for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"})
      for (const char* suffix : {"", ".gz"})
        if (is_file(folder / (std::string(part) + kind + suffix))) return true;
  return false;
}

}  // namespace hg
