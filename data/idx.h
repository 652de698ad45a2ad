// MNIST and Fashion-MNIST: IDX files, plain or compressed with gzip.
#pragma once

#include "data/dataset.h"
#include "data/file.h"

namespace hg {

struct IdxFile {
  std::vector<std::int64_t> dims;
  std::int64_t header = 0;  // bytes before the values
  Bytes bytes;
};
// An IDX file of bytes with that many dimensions (magic number 0x00000800 + rank).
IdxFile read_idx(const Path& path, int rank);

// Reads <train|t10k>-images-idx3-ubyte and -labels-idx1-ubyte, each with or without .gz.
std::unique_ptr<Dataset> open_mnist(const Path& folder, Split split);
std::unique_ptr<Dataset> open_fashion_mnist(const Path& folder, Split split);
bool holds_idx(const Path& folder);

}  // namespace hg
