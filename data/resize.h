// Bilinear resize with antialiasing, bit for bit as Pillow does it: the triangle filter widens when
// it shrinks an image, weights are 22-bit integers, and the pass along x rounds to 8 bits.
#pragma once

#include "data/dataset.h"

namespace hg {

// Keeps its weights and working memory, so a run of equal sizes only computes pixels.
class Resizer {
 public:
  // To height x width, each side on its own scale. `in` and `out` must be different images.
  void operator()(const Image& in, int height, int width, Image& out);

 private:
  // Output j is the sum over k of weights[j*taps + k] * input[first[j] + k].
  struct Filter {
    int in = 0, out = 0, taps = 0;
    CachedVector<int> first, count;
    CachedVector<std::int32_t> weights;
    void prepare(int new_in, int new_out);
    const std::int32_t* weights_of(int j) const {
      return weights.data() + std::ptrdiff_t{j} * taps;
    }
  };
  void along_x(const Image& in, Image& out);
  void along_y(const Image& in, Image& out) const;

  Filter x_, y_;
  Image between_;
  Bytes turned_in_, turned_out_;
};

}  // namespace hg
