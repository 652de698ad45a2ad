// Boxes drawn into images, and images as PNG files, through stb_image_write.
#pragma once

#include "data/dataset.h"

namespace hg {

// A green frame around the pixels that the box touches, clipped to the image; its lines lie inside.
void draw_box(Image& image, const Box& box);

// Gray or RGB.
Bytes encode_png(const Image& image);

}  // namespace hg
