#include "data/open.h"

#include <algorithm>
#include <cstdlib>

#include "data/cifar.h"
#include "data/file.h"
#include "data/folder.h"
#include "data/idx.h"
#include "data/shapes.h"
#include "data/tiny_imagenet.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

struct Source {
  const char* name;
  const char* own_folder;  // what its archive unpacks to; empty: the same as its name
  bool (*holds)(const Path&);
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

const Source kSources[] = {
    {"fashion-mnist", "", holds_idx, plainly<open_fashion_mnist>,
     "install Debian's package dataset-fashion-mnist; or get the four .gz files of "
     "https://github.com/zalandoresearch/fashion-mnist"},
    {"mnist", "", holds_idx, plainly<open_mnist>,
     "get the four files train-* and t10k-*-ubyte.gz of MNIST"},
    {"cifar10", "cifar-10-batches-bin", holds_cifar10, plainly<open_cifar10>,
     "unpack cifar-10-binary.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html"},
    {"cifar100", "cifar-100-binary", holds_cifar100, plainly<open_cifar100>,
     "unpack cifar-100-binary.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html"},
    {"tiny-imagenet", "tiny-imagenet-200", holds_tiny_imagenet, plainly<open_tiny_imagenet>,
     "unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip"},
    {"folder", "", holds_folder, with_size, "put images into one folder a class"},
};

std::vector<Path> places(const Source& source, const std::string& root) {
  std::vector<Path> found;
  const auto add_below = [&](const Path& parent) {
    found.push_back(parent / source.name);
    if (*source.own_folder) found.push_back(parent / source.own_folder);
  };
  if (!root.empty()) {
    found.emplace_back(root);
    if (source.holds != holds_folder) add_below(root);
  }
  if (const char* data = std::getenv("HG_DATA"); data && *data) add_below(data);
  for (const char* prefix : {"/usr/local", "/usr"})
    found.push_back(Path(prefix) / "share" / "datasets" / source.name);
  return found;
}

const Source& find_source(const std::string& name) {
  for (const Source& source : kSources)
    if (name == source.name) return source;
  fail("data.name", "unknown data set {}, expected {}", excerpt(name),
       fmt::join(known_datasets(), ", "));
}

std::unique_ptr<Dataset> find_and_open(const DataOptions& options, Split split) {
  const Source& source = find_source(options.name);
  std::string searched;
  for (const Path& place : places(source, options.root)) {
    if (source.holds(place)) return source.open(place, split, options);
    searched += (searched.empty() ? "" : ", ") + place.string();
  }
  const bool env = std::getenv("HG_DATA") != nullptr;
  fail(
      options.name,
      "data set not found in {}{}; {}, and set data.root to its folder or HG_DATA to the one above",
      searched, env ? "" : " (HG_DATA is not set)", source.how_to_get);
}

std::unique_ptr<Dataset> shapes_for(const DataOptions& options, Split split, std::int64_t limit) {
  ShapesOptions shapes;
  shapes.classes = options.num_classes;
  shapes.img_size = options.img_size;
  shapes.channels = options.in_channels;
  shapes.seed = options.seed;
  shapes.split = split;
  shapes.count = limit;
  return make_shapes(shapes);
}

}  // namespace

std::vector<std::string> known_datasets() {
  std::vector<std::string> names;
  for (const Source& source : kSources) names.emplace_back(source.name);
  names.emplace_back("shapes");
  return names;
}

std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split) {
  const bool train = split == Split::train;
  const std::int64_t limit = train ? options.train_limit : options.test_limit;
  require(limit >= 0, train ? "data.train_limit" : "data.test_limit", "{}, expected 0 or more",
          limit);
  require(options.validation >= 0, "data.validation", "{}, expected 0 or more", options.validation);
  const bool drawn = options.name == "shapes";
  if (drawn && options.validation == 0) return shapes_for(options, split, limit);
  const Split source = options.validation > 0 ? Split::train : split;
  std::unique_ptr<Dataset> dataset =
      drawn ? shapes_for(options, source, options.train_limit) : find_and_open(options, source);
  require(options.num_classes == 0 || dataset->classes() <= options.num_classes,
          "model.num_classes", "{}, but {} has {} classes", options.num_classes,
          dataset->info().source, dataset->classes());
  if (options.validation > 0)
    dataset = train ? without_held_out(std::move(dataset), options.validation)
                    : held_out(std::move(dataset), options.validation);
  return limit > 0 ? limited(std::move(dataset), limit) : std::move(dataset);
}

}  // namespace hg
