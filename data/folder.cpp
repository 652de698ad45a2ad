// Images in one folder a class.
#include <algorithm>

#include "data/image_files.h"
#include "data/sets.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr std::size_t kTestEvery = 5;

void expect_images(const Path& folder, const std::vector<ImageItem>& items) {
  require(!items.empty(), folder.string(), "a class folder without images, {}", expected_images());
}

bool is_presplit(const Path& root) { return is_folder(root / "train"); }

Path train_folder(const Path& root) { return is_presplit(root) ? root / "train" : root; }

Path test_folder(const Path& root) {
  for (const char* name : {"test", "val"})
    if (is_folder(root / name)) return root / name;
  fail(root.string(), "has a folder train, expected a folder test or val beside it");
}

void expect_known_classes(const Path& folder, const std::vector<std::string>& classes) {
  for (const std::string& name : list_folders(folder))
    require(std::find(classes.begin(), classes.end(), name) != classes.end(),
            (folder / name).string(), "a class that the training images don't have");
}

// The items of one class folder that belong to the split.
std::vector<ImageItem> part(std::vector<ImageItem> all, Split split) {
  std::vector<ImageItem> items;
  for (std::size_t k = 0; k < all.size(); ++k)
    if ((k % kTestEvery == kTestEvery - 1) == (split == Split::test))
      items.push_back(std::move(all[k]));
  return items;
}

}  // namespace

std::unique_ptr<Dataset> open_folder(const Path& root, Split split, int img_size) {
  const bool presplit = is_presplit(root);
  for (const char* name : {"test", "val"})
    require(presplit || !is_folder(root / name), root.string(),
            "has a folder {}, expected a folder train beside it", name);
  const Path train = train_folder(root);
  const Path source = presplit && split == Split::test ? test_folder(root) : train;

  DatasetInfo info;
  info.name = "folder";
  info.source = source.string();
  if (!presplit) info.held_out = fmt::format("every {}th image of a class", kTestEvery);
  info.class_names = list_folders(train);
  info.normalization = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};  // ImageNet's
  require(info.class_names.size() >= 2, train.string(), "{} class folders, expected 2 or more",
          info.class_names.size());
  expect_known_classes(source, info.class_names);

  std::vector<std::vector<ImageItem>> by_class;
  for (std::size_t c = 0; c < info.class_names.size(); ++c) {
    const Path folder = source / info.class_names[c];
    if (!is_folder(folder)) continue;  // no test images of this class
    std::vector<ImageItem> items = images_in(folder, static_cast<std::int64_t>(c));
    if (split == Split::train || !presplit) expect_images(folder, items);
    by_class.push_back(presplit ? std::move(items) : part(std::move(items), split));
  }
  std::vector<ImageItem> items = interleaved(std::move(by_class));
  require(!items.empty() || !presplit, source.string(), "no images in its class folders");
  require(!items.empty(), source.string(),
          "no class has the {} images it takes to set one aside for testing", kTestEvery);
  return cached(image_files(std::move(info), std::move(items), img_size));
}

bool holds_folder(const Path& root) { return is_folder(root) && !list_folders(root).empty(); }

std::int64_t classes_in_folder(const Path& root) {
  return static_cast<std::int64_t>(list_folders(train_folder(root)).size());
}

}  // namespace hg
