#include "data/image_files.h"

#include <algorithm>

#include "data/image_file.h"
#include "data/resize.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

class ImageFiles final : public Dataset {
 public:
  ImageFiles(DatasetInfo info, std::vector<ImageItem> items, int shrink_to)
      : Dataset(std::move(info)), items_(std::move(items)), shrink_to_(shrink_to) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(items_.size()); }
  std::int64_t label(std::int64_t i) const override { return item(i).label; }
  const Box* box(std::int64_t i) const override { return item(i).has_box ? &item(i).box : nullptr; }

  void get(std::int64_t i, Image& image) const override {
    thread_local Scratch scratch;
    load_image(item(i).path, scratch.file, image);
    check_box(item(i), image);
    const std::size_t largest = static_cast<std::size_t>(shrink_to_) * shrink_to_;
    if (shrink_to_ == 0 || item(i).has_box || image.plane() <= largest) return;
    std::swap(scratch.original, image);
    scratch.resize(scratch.original, shrink_to_, shrink_to_, image);
  }

 private:
  struct Scratch {
    Bytes file;
    Image original;
    Resizer resize;
  };

  const ImageItem& item(std::int64_t i) const { return items_[static_cast<std::size_t>(i)]; }

  static void check_box(const ImageItem& item, const Image& image) {
    require(!item.has_box || (item.box.x1 <= static_cast<float>(image.width) &&
                              item.box.y1 <= static_cast<float>(image.height)),
            item.path, "its box ends at pixel ({},{}), but the image is {}x{}", item.box.x1 - 1,
            item.box.y1 - 1, image.width, image.height);
  }

  std::vector<ImageItem> items_;
  int shrink_to_;
};

}  // namespace

std::vector<ImageItem> images_in(const Path& folder, std::int64_t label) {
  std::vector<ImageItem> items;
  for (const std::string& name : list_images(folder))
    items.push_back({(folder / name).string(), label, {}, {}});
  return items;
}

std::vector<ImageItem> interleaved(std::vector<std::vector<ImageItem>> by_class) {
  struct Place {
    std::uint64_t k, n;  // item k of n stands at (2k+1)/2n of its class
    std::size_t group;
  };
  std::vector<Place> places;
  for (std::size_t g = 0; g < by_class.size(); ++g)
    for (std::size_t k = 0; k < by_class[g].size(); ++k)
      places.push_back({k, by_class[g].size(), g});
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    const std::uint64_t left = (2 * a.k + 1) * b.n, right = (2 * b.k + 1) * a.n;
    return left != right ? left < right : a.group < b.group;
  });
  std::vector<ImageItem> items;
  items.reserve(places.size());
  for (const Place& p : places) items.push_back(std::move(by_class[p.group][p.k]));
  return items;
}

std::unique_ptr<Dataset> image_files(DatasetInfo info, std::vector<ImageItem> items,
                                     int shrink_to) {
  info.files = true;
  return std::make_unique<ImageFiles>(std::move(info), std::move(items), shrink_to);
}

}  // namespace hg
