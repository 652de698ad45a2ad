// A data set of image files, each decoded when it is asked for. Those that know a folder layout
// (tiny_imagenet, folder) make the list.
#pragma once

#include "data/dataset.h"
#include "data/file.h"

namespace hg {

struct ImageItem {
  std::string path;
  std::int64_t label = 0;
  bool has_box = false;
  Box box;
};

// The images directly in a folder, by name.
std::vector<ImageItem> images_in(const Path& folder, std::int64_t label);

// Mixes the classes evenly and keeps each in its own order: the first n items, for any n, hold
// about the same share of every class.
std::vector<ImageItem> interleaved(std::vector<std::vector<ImageItem>> by_class);

// Images without a box and with more pixels than shrink_to x shrink_to come at that size (0: as
// they are): what a loader would make of them anyway, and small enough to keep.
std::unique_ptr<Dataset> image_files(DatasetInfo info, std::vector<ImageItem> items, int shrink_to);

}  // namespace hg
