// Finds and opens a data set by name.
#pragma once

#include "data/dataset.h"

namespace hg {

struct DataOptions {
  std::string name;
  // Where alone it is searched: itself, <root>/<name> and the set's own folder name in it; empty:
  // $HG_DATA/<name>, $HG_DATA/<the set's own folder name>, then share/datasets/<name> of the
  // system, where Debian's packages put theirs.
  std::string root;
  std::int64_t train_limit = 0, test_limit = 0;  // 0: all; else the first so many items
  // So many training images, spread over the set, take the place of the test images, for choosing
  // settings. 0: none. They are held out before any limit (of `shapes`, from the train_limit images
  // drawn).
  std::int64_t validation = 0;
  int img_size = 0, in_channels = 0;  // what the model takes; 0: unknown
  // Of `shapes`, which also needs the two above.
  std::int64_t num_classes = 0;
  std::uint64_t seed = 1;

  std::int64_t limit(Split split) const { return split == Split::train ? train_limit : test_limit; }
};

// Opens a set of known_datasets() for training or testing; data/loader.h makes batches of it.
// Throws Error, naming every place it looked at, if the set is not found.
std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split);

// What is known of a data set by its name alone; 0: it is not.
struct DatasetFacts {
  std::string_view name;
  std::int64_t channels, size, classes;
  bool boxes = false;
};
std::vector<DatasetFacts> known_datasets();  // all names that open_dataset() knows
// The same of one, with the classes of a folder that is there. The name must be known.
DatasetFacts facts_of(const std::string& name, const std::string& root);

}  // namespace hg
