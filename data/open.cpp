#include "data/open.h"

#include <algorithm>
#include <cstdlib>

#include "data/sets.h"
#include "data/shapes.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

struct Source {
  DatasetFacts facts;
  const char* own_folder;      // what its archive unpacks to; empty: the same as its name
  bool (*holds)(const Path&);  // null: it needs no files
  const char* looked_for;      // what tells that a folder holds it
  std::unique_ptr<Dataset> (*open)(const Path&, Split, const DataOptions&);
  const char* how_to_get;
};

template <std::unique_ptr<Dataset> (*Open)(const Path&, Split)>
std::unique_ptr<Dataset> plainly(const Path& folder, Split split, const DataOptions&) {
  return Open(folder, split);
}

std::unique_ptr<Dataset> with_size(const Path& folder, Split split, const DataOptions& options) {
  return open_folder(folder, split, options.img_size);
}

std::unique_ptr<Dataset> drawn(const Path&, Split split, const DataOptions& options) {
  return make_shapes({.classes = options.num_classes,
                      .img_size = options.img_size,
                      .channels = options.in_channels,
                      .seed = options.seed,
                      .split = split,
                      .count = options.limit(split)});
}

const Source kSources[] = {
    {"fashion-mnist", 1, 28, 10, false, "", holds_idx, "train-* and t10k-*-ubyte, plain or .gz",
     plainly<open_fashion_mnist>,
     "install Debian's package dataset-fashion-mnist; or get the four .gz files of "
     "https://github.com/zalandoresearch/fashion-mnist"},
    {"mnist", 1, 28, 10, false, "", holds_idx, "train-* and t10k-*-ubyte, plain or .gz",
     plainly<open_mnist>, "get the four files train-* and t10k-*-ubyte.gz of MNIST"},
    {"cifar10", 3, 32, 10, false, "cifar-10-batches-bin", holds_cifar10,
     "data_batch_*.bin and test_batch.bin", plainly<open_cifar10>,
     "unpack cifar-10-binary.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html"},
    {"cifar100", 3, 32, 100, false, "cifar-100-binary", holds_cifar100, "train.bin and test.bin",
     plainly<open_cifar100>,
     "unpack cifar-100-binary.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html"},
    {"tiny-imagenet", 3, 64, 200, true, "tiny-imagenet-200", holds_tiny_imagenet, "wnids.txt",
     plainly<open_tiny_imagenet>, "unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip"},
    {"folder", 3, 0, 0, false, "", holds_folder, "a folder for each class", with_size,
     "put images into one folder a class"},
    {"shapes", 3, 32, 10, true, "", nullptr, "", drawn, ""},
};

// A root that is given is binding: what is not there is not looked for elsewhere.
std::vector<Path> places(const Source& source, const std::string& root) {
  std::vector<Path> found;
  const auto add_below = [&](const Path& parent) {
    found.push_back(parent / source.facts.name);
    if (*source.own_folder) found.push_back(parent / source.own_folder);
  };
  if (!root.empty()) {
    found.emplace_back(root);
    if (source.holds != holds_folder) add_below(root);
    return found;
  }
  if (const char* data = std::getenv("HG_DATA"); data && *data) add_below(data);
  for (const char* prefix : {"/usr/local", "/usr"})
    found.push_back(Path(prefix) / "share" / "datasets" / source.facts.name);
  return found;
}

const Source& find_source(const std::string& name) {
  const auto source =
      std::ranges::find(kSources, name, [](const Source& s) { return s.facts.name; });
  if (source != std::end(kSources)) return *source;
  std::vector<std::string_view> names;
  for (const DatasetFacts& facts : known_datasets()) names.push_back(facts.name);
  fail("data.name", "unknown data set {}, expected {}", excerpt(name), fmt::join(names, ", "));
}

std::unique_ptr<Dataset> find_and_open(const DataOptions& options, Split split) {
  const Source& source = find_source(options.name);
  if (!source.holds) return source.open({}, split, options);
  std::vector<std::string> searched;
  for (const Path& place : places(source, options.root)) {
    if (source.holds(place)) return source.open(place, split, options);
    searched.push_back(place.string());
  }
  require(options.root.empty(), "data.root", "no {} ({}) in {}; {}, or leave data.root empty",
          options.name, source.looked_for, fmt::join(searched, ", "), source.how_to_get);
  const bool env = std::getenv("HG_DATA") != nullptr;
  fail(
      options.name,
      "data set not found in {}{}; {}, and set data.root to its folder or HG_DATA to the one above",
      fmt::join(searched, ", "), env ? "" : " (HG_DATA is not set)", source.how_to_get);
}

}  // namespace

std::vector<DatasetFacts> known_datasets() {
  std::vector<DatasetFacts> facts;
  for (const Source& source : kSources) facts.push_back(source.facts);
  return facts;
}

DatasetFacts facts_of(const std::string& name, const std::string& root) {
  const Source& source = find_source(name);
  DatasetFacts facts = source.facts;
  if (source.holds != holds_folder) return facts;
  for (const Path& place : places(source, root))
    if (holds_folder(place)) {
      facts.classes = classes_in_folder(place);
      break;
    }
  return facts;
}

std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split) {
  const bool train = split == Split::train;
  const std::int64_t limit = options.limit(split), held = options.validation;
  require(limit >= 0, train ? "data.train_limit" : "data.test_limit", "{}, expected 0 or more",
          limit);
  require(held >= 0, "data.validation", "{}, expected 0 or more", held);
  std::unique_ptr<Dataset> dataset = find_and_open(options, held > 0 ? Split::train : split);
  if (held > 0) dataset = held_out(std::move(dataset), held, split);
  return limit > 0 ? limited(std::move(dataset), limit) : std::move(dataset);
}

}  // namespace hg
