#include "data/sets.h"

#include "tests/data/files.h"

namespace hg::testing {
namespace {

TEST_CASE("CIFAR-10 takes any number of batch files by number") {
  TempFolder folder;
  write(folder / "data_batch_10.bin", cifar_records(1, {9}));
  write(folder / "data_batch_2.bin", cifar_records(1, {3, 4}));
  write(folder / "data_batch_x.bin", "not one of them");
  write(folder / "test_batch.bin", cifar_records(1, {5}));
  const auto train = open_cifar10(folder.path(), Split::train);
  REQUIRE(train->size() == 3);
  CHECK(train->label(0) == 3);
  CHECK(train->label(1) == 4);
  CHECK(train->label(2) == 9);
  CHECK(train->class_names()[9] == "truck");
  Image image;
  train->get(1, image);
  CHECK(image.channels == 3);
  CHECK(image.width == 32);
  CHECK(image.pixels == patterned(3, 32, 32, 1).pixels);
  const auto test = open_cifar10(folder.path(), Split::test);
  CHECK(test->size() == 1);
  CHECK(test->label(0) == 5);
}

TEST_CASE("CIFAR-100 gives the fine labels") {
  TempFolder folder;
  write(folder / "train.bin", cifar_records(2, {99, 0}));
  write(folder / "test.bin", cifar_records(2, {42}));
  auto train = open_cifar100(folder.path(), Split::train);
  CHECK(train->classes() == 100);
  CHECK(train->label(0) == 99);
  Image image;
  train->get(1, image);
  CHECK(image.pixels == patterned(3, 32, 32, 1).pixels);
  CHECK(open_cifar100(folder.path(), Split::test)->label(0) == 42);

  std::string names;
  for (int i = 0; i < 100; ++i) names += "name " + std::to_string(i) + "\r\n";
  write(folder / "fine_label_names.txt", names + "\n");
  CHECK(open_cifar100(folder.path(), Split::train)->class_names()[99] == "name 99");
  write(folder / "fine_label_names.txt", names + "one more\n");
  contains(fault_of([&] { open_cifar100(folder.path(), Split::train); }),
           "101 class names, expected 100");
}

TEST_CASE("a damaged CIFAR file is named with what was expected") {
  TempFolder folder;
  const Path path = folder / "data_batch_1.bin";
  const auto fault = [&] { return fault_of([&] { open_cifar10(folder.path(), Split::train); }); };
  contains(fault(), "expected files data_batch_<number>.bin");
  write(path, cifar_records(1, {1, 2}) + "x");
  contains(fault(), path.string() + ": 6147 bytes, expected a multiple of 3073");
  write(path, "");
  contains(fault(), "0 bytes");
  write(path, cifar_records(1, {1, 10}));
  contains(fault(), "label 10 of record 1, expected 0 to 9");
  contains(fault_of([&] { open_cifar10(folder.path(), Split::test); }), "No such file");
  contains(fault_of([&] { open_cifar10(folder / "nowhere", Split::train); }), "cannot list");
}

TEST_CASE("CIFAR readers survive damaged files") {
  TempFolder folder;
  int passed = 0;
  const auto walk = [](const Dataset& data) {
    Image image;
    for (std::int64_t i = 0; i < data.size(); ++i) {
      data.get(i, image);
      REQUIRE(data.label(i) < data.classes());
    }
  };
  passed += survivors(cifar_records(1, {1, 2}), 300, [&](const std::string& damaged) {
    write(folder / "data_batch_1.bin", damaged);
    walk(*open_cifar10(folder.path(), Split::train));
  });
  passed += survivors(cifar_records(2, {1, 2}), 300, [&](const std::string& damaged) {
    write(folder / "train.bin", damaged);
    walk(*open_cifar100(folder.path(), Split::train));
  });
  CHECK(passed > 0);
  CHECK(passed < 595);
}

}  // namespace
}  // namespace hg::testing
