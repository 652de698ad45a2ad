// A data set whose images all have one size and lie in memory, record after record.
#pragma once

#include <algorithm>

#include "data/dataset.h"

namespace hg {

class MemoryDataset final : public Dataset {
 public:
  struct Layout {
    int channels, height, width;
    std::int64_t stride, offset;  // of a record, and of the pixels within it, in bytes
  };
  MemoryDataset(DatasetInfo info, const Layout& layout, Bytes records, Bytes labels)
      : Dataset(std::move(info)),
        layout_(layout),
        records_(std::move(records)),
        labels_(std::move(labels)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t label(std::int64_t i) const override { return labels_[static_cast<std::size_t>(i)]; }
  void get(std::int64_t i, Image& image) const override {
    image.reshape(layout_.channels, layout_.height, layout_.width);
    std::copy_n(records_.data() + i * layout_.stride + layout_.offset, image.pixels.size(),
                image.pixels.data());
  }

 private:
  Layout layout_;
  Bytes records_, labels_;
};

}  // namespace hg
