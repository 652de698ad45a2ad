// The data sets that are read from files, each in a source of its own: whether a folder holds one,
// and opening it.
#pragma once

#include "data/dataset.h"
#include "data/file.h"

namespace hg {

// CIFAR-10 and CIFAR-100 in their binary version: records of label bytes and 32x32 RGB planes.
// CIFAR-10's training images are those of all files data_batch_<number>.bin, by number.
std::unique_ptr<Dataset> open_cifar10(const Path& folder, Split split);
std::unique_ptr<Dataset> open_cifar100(const Path& folder, Split split);  // the fine labels
bool holds_cifar10(const Path& folder);
bool holds_cifar100(const Path& folder);

// MNIST and Fashion-MNIST: IDX files, plain or compressed with gzip. Reads
// <train|t10k>-images-idx3-ubyte and -labels-idx1-ubyte, each with or without .gz.
std::unique_ptr<Dataset> open_mnist(const Path& folder, Split split);
std::unique_ptr<Dataset> open_fashion_mnist(const Path& folder, Split split);
bool holds_idx(const Path& folder);

struct IdxFile {
  std::vector<std::int64_t> dims;
  std::int64_t header = 0;  // bytes before the values
  Bytes bytes;
};
// An IDX file of bytes with that many dimensions (magic number 0x00000800 + rank).
IdxFile read_idx(const Path& path, int rank);

// Tiny ImageNet: JPEG files in folders, one box an image. The test split is its val part, as the
// real test images have no labels.
std::unique_ptr<Dataset> open_tiny_imagenet(const Path& root, Split split);
bool holds_tiny_imagenet(const Path& root);

// Lines of an annotation file: file name, with `with_class` a class id, and the box, all separated
// by tabs. Positions are pixels, both ends included.
struct Annotation {
  std::string file, class_id;
  Box box;
};
std::vector<Annotation> read_annotations(const Path& path, bool with_class);

// Images of any kind, sorted into one folder a class: either <root>/train/<class>/ with
// <root>/test/<class>/ (or val), or <root>/<class>/ alone: then every fifth image of a class, by
// name, is for testing. Classes are the training folders by name; image files
// lie directly in them.
std::unique_ptr<Dataset> open_folder(const Path& root, Split split, int img_size);
bool holds_folder(const Path& root);
std::int64_t classes_in_folder(const Path& root);

}  // namespace hg
