// Files of data sets.
#include "data/image_file.h"
#include "data/sets.h"
#include "tests/data/files.h"
#include "tests/fuzz/fuzz.h"

namespace hg::fuzz {
namespace {

using namespace hg::testing;

void take_idx(const std::string& input) {
  const std::string path = file_with(input);
  const int rank = input.size() > 3 && input[3] == 1 ? 1 : 3;
  const IdxFile file = read_idx(path, rank);
  std::size_t values = 1;
  for (const std::int64_t extent : file.dims) values *= static_cast<std::size_t>(extent);
  must(file.bytes.size() == values + static_cast<std::size_t>(file.header), "a byte a value");
}

Inputs seeds_of_idx() {
  const std::string images = idx_images(2, 3, 4), labels = idx_labels({1, 2, 3});
  return {images, labels, gzipped(images), gzipped(labels) + gzipped("more")};
}

// What is shorter than a record stands for the names of the classes.
void take_cifar(const std::string& input) {
  static const std::string good = cifar_records(1, {3});
  const bool names = input.size() < good.size();
  put_file("cifar/test_batch.bin", names ? good : input);
  put_file("cifar/batches.meta.txt", names ? input : "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  const auto data = open_cifar10(working_folder() + "/cifar", Split::test);
  must(data->class_names().size() == 10, "10 classes");
  for (std::int64_t i = 0; i < data->size(); ++i) must(data->label(i) < 10, "a label of a class");
}

Inputs seeds_of_cifar() {
  return {cifar_records(1, {3}), cifar_records(1, {9, 0}),
          "airplane\r\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"};
}

// As annotations with and without classes, as class ids and as the names of classes.
void take_tiny_imagenet(const std::string& input) {
  for (const bool with_class : {false, true}) {
    try {
      for (const Annotation& a : read_annotations(file_with(input), with_class))
        must(a.box.x0 < a.box.x1 && a.box.y0 < a.box.y1, "a box with an inside");
    } catch (const Error&) {
    }
  }
  const std::string root = working_folder() + "/tiny";
  put_file("tiny/val/images/val_0.JPEG", kGrayJpeg);
  put_file("tiny/val/val_annotations.txt", "val_0.JPEG\tn01\t0\t0\t3\t3\n");
  put_file("tiny/words.txt", input);
  put_file("tiny/wnids.txt", "n01\n");
  surely(
      [&] { must(!open_tiny_imagenet(root, Split::test)->class_names().at(0).empty(), "a name"); });
  put_file("tiny/wnids.txt", input);
  open_tiny_imagenet(root, Split::test);
}

Inputs seeds_of_tiny_imagenet() {
  return {"a.JPEG\t0\t1\t20\t63\nb.JPEG\t5\t5\t5\t5\n", "val_0.JPEG\tn01\t0\t0\t3\t3\n",
          "n01\nn02\n", "n01\tgoldfish, Carassius\nn02\tother\n"};
}

void take_image(const std::string& input) {
  Image image;
  decode_image({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()}, "file", image);
  must(image.channels == 3 && image.pixels.size() == 3 * image.plane(), "all pixels");
}

Inputs seeds_of_image() {
  Inputs seeds{kGrayJpeg, kProgressiveJpeg, jpeg(patterned(3, 6, 5)), bmp(patterned(3, 6, 5))};
  for (const int channels : {1, 2, 3, 4}) seeds.push_back(png(patterned(channels, 6, 5)));
  return seeds;
}

HG_PARSER(idx)
HG_PARSER(cifar)
HG_PARSER(tiny_imagenet)
HG_PARSER(image)

}  // namespace
}  // namespace hg::fuzz
