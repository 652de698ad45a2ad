#include "data/sets.h"

#include "tests/data/files.h"

namespace hg::testing {
namespace {

struct Mnist {
  TempFolder folder;
  Mnist() {
    write(folder / "train-images-idx3-ubyte", idx_images(3, 5, 4));
    write(folder / "train-labels-idx1-ubyte", idx_labels({7, 0, 9}));
    write(folder / "t10k-images-idx3-ubyte.gz", gzipped(idx_images(2, 5, 4)));
    write(folder / "t10k-labels-idx1-ubyte.gz", gzipped(idx_labels({1, 2})));
  }
  std::string fault(Split split = Split::train) {
    return fault_of([&] { open_mnist(folder.path(), split); });
  }
};

TEST_CASE("IDX files are read plain and compressed") {
  Mnist files;
  for (const Split split : {Split::train, Split::test}) {
    const auto data = open_mnist(files.folder.path(), split);
    CHECK(data->size() == (split == Split::train ? 3 : 2));
    CHECK(data->classes() == 10);
    CHECK(data->label(1) == (split == Split::train ? 0 : 2));
    CHECK(data->box(0) == nullptr);
    Image image;
    data->get(1, image);
    CHECK(image.channels == 1);
    CHECK(image.height == 5);
    CHECK(image.width == 4);
    CHECK(image.pixels == patterned(1, 5, 4, 1).pixels);
  }
  CHECK(!open_mnist(files.folder.path(), Split::train)->info().mirrors);
  CHECK(open_fashion_mnist(files.folder.path(), Split::train)->class_names()[9] == "ankle boot");
}

TEST_CASE("a damaged IDX file is named with what was expected") {
  Mnist files;
  const Path images = files.folder / "train-images-idx3-ubyte";
  const Path labels = files.folder / "train-labels-idx1-ubyte";
  const std::string good = idx_images(3, 5, 4);

  write(images, good.substr(0, good.size() - 1));
  contains(files.fault(), images.string() + ": 75 bytes, expected 76");
  write(images, good + "x");
  contains(files.fault(), "77 bytes, expected 76");
  write(images, good.substr(0, 9));
  contains(files.fault(), "ends early");
  write(images, "");
  contains(files.fault(), "ends early");
  write(images, idx_labels({1, 2, 3}));
  contains(files.fault(), "magic number 0x00000801, expected 0x00000803");
  write(images, big_endian(0x803) + big_endian(0xffffffff) + big_endian(4096) + big_endian(4096));
  contains(files.fault(), "holds more than");
  write(images, big_endian(0x803) + big_endian(1) + big_endian(1 << 20) + big_endian(1));
  contains(files.fault(), "dimension 1 is 1048576, expected 1 to 4096");
  write(images, big_endian(0x803) + big_endian(0) + big_endian(28) + big_endian(28));
  contains(files.fault(), "dimension 0 is 0");
  write(images, idx_images(2, 5, 4));
  contains(files.fault(), "3 labels, but " + images.string() + " has 2 images");
  write(images, good);
  write(labels, idx_labels({1, 10, 2}));
  contains(files.fault(), labels.string() + ": label 10 of item 1, expected 0 to 9");
  std::filesystem::remove(labels);
  contains(files.fault(),
           "expected the file train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz");
}

TEST_CASE("damaged gzip data is an error") {
  Mnist files;
  const Path images = files.folder / "t10k-images-idx3-ubyte.gz";
  const std::string good = gzipped(idx_images(2, 5, 4));
  write(images, good.substr(0, good.size() - 5));
  contains(files.fault(Split::test), "gzip");
  write(images, good.substr(0, good.size() / 2));
  contains(files.fault(Split::test), images.string());
  std::string wrong_sum = good;
  wrong_sum[good.size() - 6] ^= 1;
  write(images, wrong_sum);
  contains(files.fault(Split::test), "gzip");
  write(images, good.substr(0, 10) + std::string(40, '\xff'));
  contains(files.fault(Split::test), "gzip");
  write(images, gzipped(idx_images(2, 5, 4) + "x"));
  contains(files.fault(Split::test), "57 bytes, expected 56 as its header says");
  write(images, gzipped(big_endian(0x803) + big_endian(200) + big_endian(4096) + big_endian(4096)));
  contains(files.fault(Split::test), "16 bytes, expected 3355443216 as its header says");
}

TEST_CASE("gzip data of several members is one file") {
  Mnist files;
  const std::string good = idx_images(2, 5, 4);
  write(files.folder / "t10k-images-idx3-ubyte.gz",
        gzipped(good.substr(0, 45)) + gzipped(good.substr(45)));
  CHECK(open_mnist(files.folder.path(), Split::test)->size() == 2);
}

TEST_CASE("IDX reader survives damaged files") {
  TempFolder folder;
  const Path path = folder / "file";
  for (const std::string& bytes : {idx_images(3, 5, 4), gzipped(idx_images(3, 5, 4))}) {
    const int passed = survivors(bytes, 300, [&](const std::string& damaged) {
      write(path, damaged);
      const IdxFile file = read_idx(path, 3);
      REQUIRE(file.bytes.size() ==
              static_cast<std::size_t>(16 + file.dims[0] * file.dims[1] * file.dims[2]));
    });
    CHECK(passed > 0);
    CHECK(passed < 295);
  }
}

}  // namespace
}  // namespace hg::testing
