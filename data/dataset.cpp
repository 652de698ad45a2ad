#include "data/dataset.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <numeric>

#include "tensor/base/error.h"
#include "tensor/base/text.h"

namespace hg {
namespace {

class Chosen final : public Dataset {
 public:
  Chosen(std::unique_ptr<Dataset> base, std::vector<std::int64_t> items)
      : Dataset(base->info()), base_(std::move(base)), items_(std::move(items)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(items_.size()); }
  void get(std::int64_t i, Image& image) const override { base_->get(item(i), image); }
  std::int64_t label(std::int64_t i) const override { return base_->label(item(i)); }
  const Box* box(std::int64_t i) const override { return base_->box(item(i)); }

 private:
  std::int64_t item(std::int64_t i) const { return items_[static_cast<std::size_t>(i)]; }

  std::unique_ptr<Dataset> base_;
  std::vector<std::int64_t> items_;
};

class Cached final : public Dataset {
 public:
  Cached(std::unique_ptr<Dataset> base, std::size_t budget_bytes)
      : Dataset(base->info()),
        base_(std::move(base)),
        kept_(static_cast<std::size_t>(base_->size())),
        room_(budget_bytes) {}

  std::int64_t size() const override { return base_->size(); }
  std::int64_t label(std::int64_t i) const override { return base_->label(i); }
  const Box* box(std::int64_t i) const override { return base_->box(i); }

  void get(std::int64_t i, Image& image) const override {
    if (const Image* kept = find(i)) {
      image.reshape(kept->channels, kept->height, kept->width);
      std::copy(kept->pixels.begin(), kept->pixels.end(), image.pixels.begin());
      return;
    }
    base_->get(i, image);
    keep(i, image);
  }

 private:
  // An image that is kept never changes, so it can be read without the lock.
  const Image* find(std::int64_t i) const {
    const std::lock_guard lock(mutex_);
    return kept_[static_cast<std::size_t>(i)].get();
  }
  void keep(std::int64_t i, const Image& image) const {
    {
      const std::lock_guard lock(mutex_);
      if (kept_[static_cast<std::size_t>(i)] || room_ < image.pixels.size()) return;
      room_ -= image.pixels.size();
    }
    auto copy = std::make_unique<const Image>(image);
    const std::lock_guard lock(mutex_);
    if (!kept_[static_cast<std::size_t>(i)]) kept_[static_cast<std::size_t>(i)] = std::move(copy);
  }

  std::unique_ptr<Dataset> base_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const Image>> kept_;
  mutable std::size_t room_;
};

}  // namespace

void Image::take_interleaved(const std::uint8_t* rgb) {
  const std::size_t n = plane();
  std::uint8_t* planes = pixels.data();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < 3; ++c) planes[c * n + i] = rgb[3 * i + c];
}

Dataset::Dataset(DatasetInfo info) : info_(std::move(info)) {
  for (std::string& name : info_.class_names) name = printable_utf8(name);
}

std::unique_ptr<Dataset> limited(std::unique_ptr<Dataset> base, std::int64_t count) {
  require(count >= 0, base->info().name, "limit of {} images, expected 0 or more", count);
  std::vector<std::int64_t> items(static_cast<std::size_t>(std::min(count, base->size())));
  std::iota(items.begin(), items.end(), 0);
  return std::make_unique<Chosen>(std::move(base), std::move(items));
}

std::unique_ptr<Dataset> held_out(std::unique_ptr<Dataset> base, std::int64_t count, Split part) {
  const std::int64_t size = base->size();
  require(count >= 1 && count < size, base->info().name,
          "{} images to hold out of {}, expected 1 to {}", count, size, size - 1);
  std::vector<std::int64_t> items;
  for (std::int64_t i = 0; i < size; ++i)
    if (((i + 1) * count / size > i * count / size) == (part == Split::test)) items.push_back(i);
  return std::make_unique<Chosen>(std::move(base), std::move(items));
}

std::unique_ptr<Dataset> without(std::unique_ptr<Dataset> base,
                                 const std::vector<std::int64_t>& items) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(base->size())), kept;
  std::iota(all.begin(), all.end(), 0);
  std::ranges::set_difference(all, items, std::back_inserter(kept));
  return std::make_unique<Chosen>(std::move(base), std::move(kept));
}

std::unique_ptr<Dataset> cached(std::unique_ptr<Dataset> base, std::size_t budget_bytes) {
  return std::make_unique<Cached>(std::move(base), budget_bytes);
}

Normalization Normalization::for_channels(int wanted) const {
  if (wanted == channels()) return *this;
  require((channels() == 1 && wanted == 3) || (channels() == 3 && wanted == 1), "in_channels",
          "{}, but the images have {}; only gray (1) and RGB (3) convert", wanted, channels());
  if (wanted == 3) return {std::vector(3, mean[0]), std::vector(3, stddev[0])};
  // Luminance; the channels of natural images vary together, so their deviations add.
  const auto luminance = [](const std::vector<float>& v) {
    return 0.299f * v[0] + 0.587f * v[1] + 0.114f * v[2];
  };
  return {{luminance(mean)}, {luminance(stddev)}};
}

}  // namespace hg
