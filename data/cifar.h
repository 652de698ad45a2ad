// CIFAR-10 and CIFAR-100 in their binary version: records of label bytes and 32x32 RGB planes.
#pragma once

#include "data/dataset.h"
#include "data/file.h"

namespace hg {

// CIFAR-10's training images are those of all files data_batch_<number>.bin, by number.
std::unique_ptr<Dataset> open_cifar10(const Path& folder, Split split);
std::unique_ptr<Dataset> open_cifar100(const Path& folder, Split split);  // the fine labels
bool holds_cifar10(const Path& folder);
bool holds_cifar100(const Path& folder);

}  // namespace hg
