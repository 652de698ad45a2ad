// Data sets of image files: a folder by class, Tiny ImageNet.
#include "data/sets.h"
#include "tests/data/files.h"

namespace hg::testing {
namespace {

void write_images(const Path& folder, int count, int salt) {
  for (int i = 0; i < count; ++i)
    write(folder / ("img " + std::to_string(i) + ".png"), png(patterned(3, 6, 6, salt + i)));
}

TEST_CASE("a folder of classes with train and test parts") {
  TempFolder root;
  write_images(root / "train/cat", 2, 0);
  write_images(root / "train/dog", 4, 100);
  write(root / "train/dog/notes.txt", "not an image");
  write(root / "train/dog/.hidden.png", "not an image either");
  std::filesystem::create_directories(root / "train/.cache");
  write_images(root / "val/dog", 1, 200);
  const auto train = open_folder(root.path(), Split::train, 8);
  CHECK(train->class_names() == std::vector<std::string>{"cat", "dog"});
  REQUIRE(train->size() == 6);
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 6; ++i) labels.push_back(train->label(i));
  CHECK(labels == std::vector<std::int64_t>{1, 0, 1, 1, 0, 1});  // mixed in proportion
  Image image;
  for (int pass = 0; pass < 2; ++pass) {  // the second one from the cache
    train->get(2, image);
    CHECK(image.pixels == patterned(3, 6, 6, 101).pixels);
  }
  const auto test = open_folder(root.path(), Split::test, 8);
  CHECK(test->size() == 1);
  CHECK(test->label(0) == 1);
  CHECK(test->classes() == 2);
}

TEST_CASE("names of classes keep their letters and lose what a terminal or JSON would not bear") {
  TempFolder root;
  write_images(root / "train/caf\u00e9", 1, 0);
  write_images(root / "train/red\x1b[31m", 1, 0);
  write_images(root / "train/x\xff", 1, 0);
  write_images(root / "test/x\xff", 1, 0);
  const std::vector<std::string> names{"caf\u00e9", "red\\x1b[31m", "x\\xff"};
  for (const Split split : {Split::train, Split::test})
    CHECK(open_folder(root.path(), split, 8)->class_names() == names);
  CHECK(open_folder(root.path(), Split::test, 8)->label(0) == 2);
}

TEST_CASE("a folder without parts sets every fifth image aside, by name") {
  TempFolder root;
  write_images(root / "a", 11, 0);
  write_images(root / "b", 4, 100);
  const auto train = open_folder(root.path(), Split::train, 8);
  const auto test = open_folder(root.path(), Split::test, 8);
  CHECK(train->size() == 13);
  REQUIRE(test->size() == 2);
  Image image;
  test->get(0, image);
  CHECK(image.pixels == patterned(3, 6, 6, 4).pixels);
  test->get(1, image);
  CHECK(image.pixels == patterned(3, 6, 6, 9).pixels);  // "img 10" comes after "img 9"
}

TEST_CASE("images larger than the model takes come shrunk") {
  TempFolder root;
  write_images(root / "train/a", 1, 0);
  write_images(root / "train/b", 1, 0);
  write_images(root / "test/a", 1, 0);
  Image image;
  open_folder(root.path(), Split::train, 4)->get(0, image);
  CHECK(image.width == 4);
  CHECK(image.height == 4);
  open_folder(root.path(), Split::train, 0)->get(0, image);
  CHECK(image.width == 6);
}

TEST_CASE("a folder that is not one of classes is an error") {
  TempFolder root;
  const auto fault = [&](Split split = Split::train) {
    return fault_of([&] { open_folder(root.path(), split, 8); });
  };
  contains(fault(), "0 class folders, expected 2 or more");
  write_images(root / "a", 2, 0);
  std::filesystem::create_directories(root / "b");
  contains(fault(), root / "b" + ": a class folder without images");
  write_images(root / "b", 2, 0);
  contains(fault(Split::test), "no class has the 5 images");
  std::filesystem::create_directories(root / "val");
  contains(fault(), "has a folder val, expected a folder train beside it");
  std::filesystem::remove(root / "val");
  write_images(root / "train/a", 1, 0);
  write_images(root / "train/b", 1, 0);
  contains(fault(Split::test), "expected a folder test or val");
  std::filesystem::create_directories(root / "test/a");
  contains(fault(Split::test), "no images in its class folders");
  write_images(root / "test/c", 1, 0);
  contains(fault(Split::test), root / "test/c" + ": a class that the training images");
  write(root / "train/a/img 0.png", "\x89PNG, but not really");
  const auto train = open_folder(root.path(), Split::train, 8);
  Image image;
  contains(fault_of([&] { train->get(0, image); }), "train/a/img 0.png: damaged image");
}

struct TinyImageNet {
  TempFolder root;
  TinyImageNet() {
    write(root / "wnids.txt", "n02\nn01\n");
    write(root / "words.txt", "n01\tgoldfish, Carassius auratus\nn02\tbus\nn03\tnot here\n");
    for (const std::string id : {"n01", "n02"}) {
      write(root / ("train/" + id + "/images/" + id + "_0.JPEG"), jpeg(patterned(3, 8, 8)));
      write(root / ("train/" + id + "/images/" + id + "_1.JPEG"), kGrayJpeg);
      write(root / ("train/" + id + "/" + id + "_boxes.txt"),
            id + "_1.JPEG\t0\t2\t7\t5\n" + id + "_0.JPEG\t3\t1\t3\t4\n");
    }
    write(root / "val/images/val_0.JPEG", kGrayJpeg);
    write(root / "val/images/val_1.JPEG", kGrayJpeg);
    write(annotations(), "val_1.JPEG\tn02\t0\t0\t3\t3\nval_0.JPEG\tn01\t4\t4\t7\t7\n");
  }
  Path annotations() const { return root / "val/val_annotations.txt"; }
  std::string fault(Split split) const {
    return fault_of([&] { open_tiny_imagenet(root.path(), split); });
  }
};

TEST_CASE("Tiny ImageNet: classes, names, boxes of both annotation files, gray images") {
  TinyImageNet files;
  const auto train = open_tiny_imagenet(files.root.path(), Split::train);
  CHECK(train->class_names() == std::vector<std::string>{"bus", "goldfish"});
  REQUIRE(train->size() == 4);
  CHECK(train->label(0) == 0);
  CHECK(train->label(1) == 1);
  REQUIRE(train->box(0) != nullptr);
  const Box thin = *train->box(0);  // one pixel wide: kept, and it has an area
  CHECK(thin.x0 == 3);
  CHECK(thin.x1 == 4);
  CHECK(thin.y1 == 5);
  CHECK(thin.area() == 4);
  CHECK(train->box(2)->x1 == 8);
  Image image;
  train->get(2, image);  // n02_1.JPEG, gray
  REQUIRE(image.channels == 3);
  CHECK(std::equal(image.row(0, 0), image.row(1, 0), image.row(2, 0)));

  const auto val = open_tiny_imagenet(files.root.path(), Split::test);
  REQUIRE(val->size() == 2);
  CHECK(val->label(0) == 1);
  CHECK(val->label(1) == 0);
  CHECK(val->box(0)->x0 == 4);
  std::filesystem::remove(files.root / "words.txt");
  std::filesystem::remove(files.root / "train/n01/n01_boxes.txt");
  const auto plain = open_tiny_imagenet(files.root.path(), Split::train);
  CHECK(plain->class_names()[0] == "n02");
  CHECK(plain->box(1) == nullptr);
  CHECK(plain->box(0) != nullptr);
}

TEST_CASE("Tiny ImageNet: annotations that don't fit are errors with file and line") {
  TinyImageNet files;
  const std::string path = files.annotations().string();
  const auto fault = [&](const std::string& text) {
    write(files.annotations(), text);
    return files.fault(Split::test);
  };
  const std::string good = "val_1.JPEG\tn02\t0\t0\t3\t3\n";
  contains(fault(good), path + ": no line for 1 of the 2 images, such as \"val_0.JPEG\"");
  contains(fault(good + good), "\"val_1.JPEG\" has a second line or no image file");
  contains(fault(good + "val_7.JPEG\tn02\t0\t0\t3\t3\n"), "\"val_7.JPEG\" has a second line or no");
  contains(fault("val_1.JPEG\tn09\t0\t0\t3\t3\n"),
           "class \"n09\" of \"val_1.JPEG\" is not in wnids");
  contains(fault("val_1.JPEG\tn02\t0\t0\t3\n"),
           path + ":1: 5 fields separated by tabs, expected 6");
  contains(fault(good + "val_0.JPEG\tn02\t0\t0\t3\tx\n"), path + ":2: \"x\" as a box position");
  contains(fault("val_1.JPEG\tn02\t0\t0\t-3\t3\n"), "\"-3\" as a box position");
  contains(fault("val_1.JPEG\tn02\t5\t0\t3\t3\n"), "box (5,0)-(3,3) ends before it begins");
  contains(fault(""), "no line for 2 of the 2 images");
  write(files.annotations(), good + "val_0.JPEG\tn01\t0\t0\t8\t7\n");
  const auto val = open_tiny_imagenet(files.root.path(), Split::test);
  Image image;
  contains(fault_of([&] { val->get(0, image); }),
           "its box ends at pixel (8,7), but the image is 8x8");

  write(files.root / "wnids.txt", "n02\nn02\n");
  contains(files.fault(Split::train), "wnids.txt:2: class \"n02\" appears twice");
  write(files.root / "wnids.txt", "n02\n../n01\n");
  contains(files.fault(Split::train), "\"../n01\" is no class id");
  write(files.root / "wnids.txt", "n02\nn05\n");
  contains(files.fault(Split::train), "n05/images: cannot list");
  write(files.root / "wnids.txt", "");
  contains(files.fault(Split::train), "no class ids");
}

TEST_CASE("Tiny ImageNet's text files survive damage") {
  TinyImageNet files;
  int passed = 0;
  const auto try_file = [&](const Path& path, Split split, int count) {
    const std::string good = read_text(path, 10000);
    passed += survivors(good, count, [&](const std::string& damaged) {
      write(path, damaged);
      open_tiny_imagenet(files.root.path(), split);
    });
    write(path, good);
  };
  try_file(files.annotations(), Split::test, 200);
  try_file(files.root / "train/n01/n01_boxes.txt", Split::train, 100);
  try_file(files.root / "wnids.txt", Split::test, 100);
  try_file(files.root / "words.txt", Split::test, 100);
  CHECK(passed > 100);
  CHECK(passed < 450);
}

}  // namespace
}  // namespace hg::testing
