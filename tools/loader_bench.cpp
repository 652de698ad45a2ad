// Times the loader on a folder of images, for tools/compare_loader.py: loader_bench FOLDER SIZE.
// Each line of standard input is a number of workers; the answer is the images per second of an
// epoch of the training images, which are decoded and augmented anew.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "data/loader.h"
#include "data/open.h"
#include "tensor/base/clock.h"

namespace {

using namespace hg;

double images_per_s(const DataOptions& data, int workers) {
  const std::unique_ptr<Dataset> set = open_dataset(data, Split::train);
  LoaderOptions options;
  options.batch_size = 64, options.img_size = data.img_size, options.in_channels = 3;
  options.augment = options.shuffle = true;
  options.workers = workers;
  Loader loader(*set, options);
  const std::int64_t start = now_ns();
  std::int64_t images = 0;
  loader.start_epoch(0);
  for (Batch batch; loader.next(batch);) images += batch.size();
  return static_cast<double>(images) * 1e9 / static_cast<double>(now_ns() - start);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    hg::require(argc == 3, "usage", "loader_bench FOLDER SIZE");
    hg::DataOptions data;
    data.name = "folder", data.root = argv[1];
    data.img_size = std::stoi(argv[2]), data.in_channels = 3;
    for (int workers = 0; std::cin >> workers;) {
      fmt::print("{:.1f}\n", images_per_s(data, workers));
      std::fflush(stdout);
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "loader_bench: {}\n", e.what());
    return 1;
  }
}
