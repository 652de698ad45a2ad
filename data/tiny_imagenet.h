// Tiny ImageNet: JPEG files in folders, one box an image. The test split is its val part, as the
// real test images have no labels.
#pragma once

#include "data/dataset.h"
#include "data/file.h"

namespace hg {

std::unique_ptr<Dataset> open_tiny_imagenet(const Path& root, Split split);
bool holds_tiny_imagenet(const Path& root);

// Lines of an annotation file: file name, with `with_class` a class id, and the box, all separated
// by tabs. Positions are pixels, both ends included.
struct Annotation {
  std::string file, class_id;
  Box box;
};
std::vector<Annotation> read_annotations(const Path& path, bool with_class);

}  // namespace hg
