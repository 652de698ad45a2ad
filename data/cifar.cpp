// CIFAR-10 and CIFAR-100.
#include "data/memory_dataset.h"
#include "data/sets.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr int kSide = 32;
constexpr std::int64_t kPixels = 3 * kSide * kSide;
constexpr std::uint64_t kMaxBytesOfAll = std::uint64_t{1} << 32;  // of all files together
constexpr std::uint64_t kMaxNameBytes = 1 << 16;

// The digits of data_batch_<digits>.bin; empty for any other name.
std::string_view batch_number(std::string_view name) {
  constexpr std::string_view kFirst = "data_batch_", kLast = ".bin";
  if (!name.starts_with(kFirst) || !name.ends_with(kLast)) return {};
  if (name.size() <= kFirst.size() + kLast.size()) return {};
  name.remove_prefix(kFirst.size());
  name.remove_suffix(kLast.size());
  return name.find_first_not_of("0123456789") == std::string_view::npos ? name : "";
}

std::vector<Path> batch_files(const Path& folder) {
  std::vector<Path> files;  // list_files sorts numbers by value
  for (const std::string& name : list_files(folder))
    if (!batch_number(name).empty()) files.push_back(folder / name);
  return files;
}

// One name a line for each class, if the file is there; `fallback` if not.
std::vector<std::string> names_of_classes(const Path& path, std::vector<std::string> fallback) {
  if (!is_file(path)) return fallback;
  std::vector<std::string> names = read_lines(path, kMaxNameBytes);
  require(names.size() == fallback.size(), path.string(), "{} class names, expected {}",
          names.size(), fallback.size());
  return names;
}

// A record is `label_bytes` labels, the last of which is the class, then the pixels.
std::unique_ptr<Dataset> open_records(DatasetInfo info, const std::vector<Path>& files,
                                      std::int64_t label_bytes) {
  const std::int64_t stride = label_bytes + kPixels;
  std::uint64_t total = 0;
  std::vector<std::size_t> sizes;
  for (const Path& path : files) {
    const std::uint64_t size = InputFile(path).size();
    require(size > 0 && size % static_cast<std::uint64_t>(stride) == 0, path.string(),
            "{} bytes, expected a multiple of {} (one image's record)", size, stride);
    total += size;
    require(total <= kMaxBytesOfAll, path.string(), "more than {} bytes with the files before it",
            kMaxBytesOfAll);
    sizes.push_back(static_cast<std::size_t>(size));
  }
  Bytes records(static_cast<std::size_t>(total)), labels;
  labels.reserve(records.size() / static_cast<std::size_t>(stride));
  std::uint8_t* record = records.data();
  for (std::size_t f = 0; f < files.size(); ++f) {
    InputFile(files[f]).read(record, sizes[f]);
    const std::uint8_t* const first = record;
    for (; record < first + sizes[f]; record += stride) {
      const std::uint8_t label = record[label_bytes - 1];
      require(label < info.class_names.size(), files[f].string(),
              "label {} of record {}, expected 0 to {}", label, (record - first) / stride,
              info.class_names.size() - 1);
      labels.push_back(label);
    }
  }
  const MemoryDataset::Layout layout{3, kSide, kSide, stride, label_bytes};
  return std::make_unique<MemoryDataset>(std::move(info), layout, std::move(records),
                                         std::move(labels));
}

}  // namespace

std::unique_ptr<Dataset> open_cifar10(const Path& folder, Split split) {
  DatasetInfo info;
  info.name = "cifar10";
  info.source = folder.string();
  info.class_names = names_of_classes(
      folder / "batches.meta.txt",
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"});
  info.normalization = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  std::vector<Path> files{folder / "test_batch.bin"};
  if (split == Split::train) files = batch_files(folder);
  require(!files.empty(), folder.string(), "expected files data_batch_<number>.bin");
  return open_records(std::move(info), files, 1);
}

std::unique_ptr<Dataset> open_cifar100(const Path& folder, Split split) {
  std::vector<std::string> numbers;
  for (int i = 0; i < 100; ++i) numbers.push_back(std::to_string(i));
  DatasetInfo info;
  info.name = "cifar100";
  info.source = folder.string();
  info.class_names = names_of_classes(folder / "fine_label_names.txt", numbers);
  info.normalization = {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}};
  const Path file = folder / (split == Split::train ? "train.bin" : "test.bin");
  return open_records(std::move(info), {file}, 2);
}

bool holds_cifar10(const Path& folder) {
  return is_file(folder / "test_batch.bin") || (is_folder(folder) && !batch_files(folder).empty());
}

bool holds_cifar100(const Path& folder) {
  return is_file(folder / "train.bin") || is_file(folder / "test.bin");
}

}  // namespace hg
