// A procedural data set that needs no files: one coloured shape on textured, cluttered ground, with
// its class and box. Colour, place, size and angle say nothing about the class.
#pragma once

#include "data/dataset.h"

namespace hg {

struct ShapesOptions {
  std::int64_t classes = 10;  // 2 to 10
  int img_size = 32;
  int channels = 3;
  std::uint64_t seed = 1;
  Split split = Split::train;
  std::int64_t count = 0;  // 0: 4,096 training or 1,024 test images; at most 60,000 or 10,000
};

// Image i is a function of (seed, split, i) and the image's shape alone; item i is of class
// i mod classes.
std::unique_ptr<Dataset> make_shapes(const ShapesOptions& options);

}  // namespace hg
