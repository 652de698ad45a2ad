#include "data/open.h"

#include <cstdlib>

#include "tests/data/files.h"

namespace hg::testing {
namespace {

// Sets HG_DATA for the time of a test.
struct DataFolder {
  TempFolder folder;
  DataFolder() { setenv("HG_DATA", folder.path().c_str(), 1); }
  ~DataFolder() { unsetenv("HG_DATA"); }
};

DataOptions named(const std::string& name, const std::string& root = "") {
  DataOptions options;
  options.name = name;
  options.root = root;
  return options;
}

std::int64_t first_label(const DataOptions& options) {
  return open_dataset(options, Split::test)->label(0);
}

TEST_CASE("a data set is found in the root that is given, else below HG_DATA") {
  DataFolder data;
  TempFolder root;
  write(data.folder / "cifar-10-batches-bin/test_batch.bin", cifar_records(1, {1}));
  CHECK(first_label(named("cifar10")) == 1);
  write(data.folder / "cifar10/test_batch.bin", cifar_records(1, {2}));
  CHECK(first_label(named("cifar10")) == 2);
  // Not in the root: the copy below HG_DATA must not take its place.
  const std::string fault =
      fault_of([&] { open_dataset(named("cifar10", root.path()), Split::test); });
  contains(fault, "data.root: no cifar10 (data_batch_*.bin and test_batch.bin) in " + root.path());
  write(root / "cifar10/test_batch.bin", cifar_records(1, {3}));
  CHECK(first_label(named("cifar10", root.path())) == 3);
  write(root / "test_batch.bin", cifar_records(1, {4}));
  CHECK(first_label(named("cifar10", root.path())) == 4);
  CHECK(open_dataset(named("cifar10"), Split::test)->info().source == data.folder / "cifar10");
  write(data.folder / "mnist/t10k-images-idx3-ubyte.gz", gzipped(idx_images(1, 4, 4)));
  write(data.folder / "mnist/t10k-labels-idx1-ubyte.gz", gzipped(idx_labels({6})));
  CHECK(first_label(named("mnist")) == 6);
}

TEST_CASE("what is not found is an error with every place and a way to get it") {
  unsetenv("HG_DATA");
  const std::string unset = fault_of([] { open_dataset(named("cifar10"), Split::train); });
  contains(unset, "/usr/share/datasets/cifar10");
  contains(unset, "HG_DATA is not set");
  DataFolder data;
  const std::string fault = fault_of([] { open_dataset(named("cifar10"), Split::train); });
  for (const std::string& place : {data.folder / "cifar10", data.folder / "cifar-10-batches-bin",
                                   std::string("/usr/share/datasets/cifar10"),
                                   std::string("cifar-10-binary.tar.gz"), std::string("data.root")})
    contains(fault, place);
  const std::string unknown = fault_of([] { open_dataset(named("cifar11"), Split::train); });
  contains(unknown, "data.name: unknown data set \"cifar11\"");
  for (const DatasetFacts& facts : known_datasets()) contains(unknown, std::string(facts.name));
}

TEST_CASE("limits keep the first items, and model and data set must fit") {
  DataFolder data;
  write(data.folder / "cifar10/test_batch.bin", cifar_records(1, {5, 6, 7}));
  DataOptions options = named("cifar10");
  options.test_limit = 2, options.train_limit = 1;
  const auto two = open_dataset(options, Split::test);
  REQUIRE(two->size() == 2);
  CHECK(two->label(1) == 6);
  CHECK(two->classes() == 10);
  Image image;
  two->get(1, image);
  CHECK(image.pixels == patterned(3, 32, 32, 1).pixels);
  options.test_limit = 9;
  CHECK(open_dataset(options, Split::test)->size() == 3);
  options.test_limit = -1;
  contains(fault_of([&] { open_dataset(options, Split::test); }), "data.test_limit: -1");
}

TEST_CASE("a validation split holds training images out, and never shows test images") {
  DataFolder data;
  for (int batch = 1; batch <= 5; ++batch)  // labels 0, 0, 1, 1, 2, 2, ... as if sorted by class
    write(data.folder / ("cifar10/data_batch_" + std::to_string(batch) + ".bin"),
          cifar_records(1, {batch - 1, batch - 1}));
  write(data.folder / "cifar10/test_batch.bin", cifar_records(1, {9}));
  DataOptions options = named("cifar10");
  options.validation = 5;
  const auto labels = [&](Split split) {
    const auto set = open_dataset(options, split);
    std::vector<std::int64_t> found;
    for (std::int64_t i = 0; i < set->size(); ++i) found.push_back(set->label(i));
    return found;
  };
  CHECK(labels(Split::train) == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(labels(Split::test) == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  options.train_limit = 2, options.test_limit = 3;
  CHECK(labels(Split::train) == std::vector<std::int64_t>{0, 1});
  CHECK(labels(Split::test) == std::vector<std::int64_t>{0, 1, 2});
  options.train_limit = 0, options.test_limit = 0;
  options.validation = 3;
  CHECK(labels(Split::train).size() == 7);
  CHECK(labels(Split::test).size() == 3);
  options.validation = 10;
  contains(fault_of([&] { open_dataset(options, Split::train); }), "expected 1 to 9");

  DataOptions shapes = named("shapes");
  shapes.img_size = 16, shapes.in_channels = 1, shapes.num_classes = 4;
  shapes.train_limit = 20, shapes.validation = 5;
  CHECK(open_dataset(shapes, Split::train)->size() == 15);
  CHECK(open_dataset(shapes, Split::test)->size() == 5);
}

TEST_CASE("shapes need no files, and take their form from the model") {
  DataOptions options = named("shapes");
  options.img_size = 16, options.in_channels = 1, options.num_classes = 4;
  options.train_limit = 5000;
  const auto train = open_dataset(options, Split::train);
  CHECK(train->size() == 5000);
  CHECK(train->classes() == 4);
  Image image;
  train->get(0, image);
  CHECK(image.channels == 1);
  CHECK(image.width == 16);
  options.num_classes = 11;
  contains(fault_of([&] { open_dataset(options, Split::train); }),
           "model.num_classes: expected 2 to 10 with data.name = \"shapes\", got 11");
}

}  // namespace
}  // namespace hg::testing
