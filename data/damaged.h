// Images that cannot be read, found before anything depends on them.
#pragma once

#include "data/dataset.h"

namespace hg {

struct DamagedItem {
  std::int64_t item;
  std::string fault;  // begins with its file
};

// In order. Reads every image of a set of files, so those that a cache has room for are in it
// afterwards; other sets were checked when they were opened.
std::vector<DamagedItem> damaged_items(const Dataset& set);

}  // namespace hg
