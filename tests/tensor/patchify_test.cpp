#include "tensor/ops/patchify.h"

#include <doctest/doctest.h>

#include <numeric>

namespace hg {

TEST_CASE("patches come in raster order, their pixels by channel, row, column") {
  // channel 0:  0  1  2  3  4  5    channel 1: 12 .. 23
  //             6  7  8  9 10 11
  std::vector<float> labels(24);
  std::iota(labels.begin(), labels.end(), 0.0f);
  const Tensor image = Tensor::of<float>({1, 2, 2, 6}, labels);
  const Tensor patches = patchify(image, 2);
  CHECK(patches.shape() == Shape{1, 3, 8});
  CHECK(patches.to_vector<float>() == std::vector<float>{0, 1, 6,  7,  12, 13, 18, 19,  //
                                                         2, 3, 8,  9,  14, 15, 20, 21,  //
                                                         4, 5, 10, 11, 16, 17, 22, 23});
  CHECK(unpatchify(patches, 2, 2, 2, 6).to_vector<float>() == labels);
}

TEST_CASE("unpatchify undoes patchify for every run length") {
  for (const std::int64_t p : {1, 2, 4, 7, 8, 16, 20}) {
    INFO("patch " << p);
    std::vector<float> labels(static_cast<std::size_t>(2 * 3 * 2 * p * 3 * p));
    std::iota(labels.begin(), labels.end(), 0.0f);
    const Tensor images = Tensor::of<float>({2, 3, 2 * p, 3 * p}, labels);
    const Tensor patches = patchify(images, p);
    CHECK(patches.to_vector<float>()[static_cast<std::size_t>(3 * p * p)] == labels[p]);
    CHECK(unpatchify(patches, p, 3, 2 * p, 3 * p).to_vector<float>() == labels);
  }
}

TEST_CASE("a patch side that does not divide the image is refused") {
  CHECK_THROWS_WITH_AS(patchify(Tensor::zeros({1, 3, 8, 9}), 4),
                       "patchify: patch side 4 does not divide images of [1,3,8,9]", Error);
  CHECK_THROWS_WITH_AS(patchify(Tensor::zeros({1, 3, 8, 8}), 0),
                       "patchify: patch side 0 must be positive", Error);
  CHECK_THROWS_AS(unpatchify(Tensor::zeros({1, 4, 12}), 2, 3, 4, 5), Error);
  CHECK_THROWS_AS(unpatchify(Tensor::zeros({1, 4, 12}), 2, 3, 4, 6), Error);
}

}  // namespace hg
