// Tiny ImageNet.
#include <algorithm>
#include <unordered_map>

#include "data/image_files.h"
#include "data/sets.h"
#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 26;
constexpr int kMaxPosition = 16383;

int parse_position(std::string_view field, const std::string& where) {
  const int value = parse_number<int>(field).value_or(-1);
  require(value >= 0 && value <= kMaxPosition, where, "{} as a box position, expected 0 to {}",
          excerpt(field), kMaxPosition);
  return value;
}

Box parse_box(const std::vector<std::string_view>& fields, std::size_t first,
              const std::string& where) {
  int v[4];
  for (std::size_t i = 0; i < 4; ++i) v[i] = parse_position(fields[first + i], where);
  require(v[0] <= v[2] && v[1] <= v[3], where, "box ({},{})-({},{}) ends before it begins", v[0],
          v[1], v[2], v[3]);
  return {static_cast<float>(v[0]), static_cast<float>(v[1]), static_cast<float>(v[2] + 1),
          static_cast<float>(v[3] + 1)};
}

std::vector<std::string> read_class_ids(const Path& path) {
  std::vector<std::string> ids = read_lines(path, kMaxTextBytes);
  require(!ids.empty(), path.string(), "no class ids, expected one a line");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool plain = !ids[i].empty() && ids[i][0] != '.' &&
                       ids[i].find_first_of(std::string_view("/\t \0", 4)) == std::string::npos;
    require(plain, fmt::format("{}:{}", path.string(), i + 1), "{} is no class id",
            excerpt(ids[i]));
    require(std::find(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i), ids[i]) ==
                ids.begin() + static_cast<std::ptrdiff_t>(i),
            fmt::format("{}:{}", path.string(), i + 1), "class {} appears twice", excerpt(ids[i]));
  }
  return ids;
}

// The first of a class's names in words.txt; its id where there is none.
std::vector<std::string> class_names(const Path& words, const std::vector<std::string>& ids) {
  std::vector<std::string> names = ids;
  if (!is_file(words)) return names;
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < ids.size(); ++i) index.emplace(ids[i], i);
  for (const std::string& line : read_lines(words, kMaxTextBytes)) {
    const std::size_t tab = line.find('\t');
    const auto found = index.find(std::string_view(line).substr(0, tab));
    if (tab == std::string::npos || found == index.end()) continue;
    const std::string name = line.substr(tab + 1, line.find(',', tab) - tab - 1);
    if (!name.empty()) names[found->second] = name;
  }
  return names;
}

using ItemsByName = std::unordered_map<std::string, ImageItem*>;

// Gives every listed image its annotation; both must name the same files.
template <class Apply>
void annotate(std::vector<ImageItem>& items, const Path& path, bool with_class, Apply apply) {
  ItemsByName waiting;
  for (ImageItem& item : items) waiting.emplace(Path(item.path).filename().string(), &item);
  for (const Annotation& a : read_annotations(path, with_class)) {
    const auto found = waiting.find(a.file);
    require(found != waiting.end(), path.string(), "{} has a second line or no image file",
            excerpt(a.file));
    found->second->has_box = true;
    found->second->box = a.box;
    apply(*found->second, a);
    waiting.erase(found);
  }
  require(waiting.empty(), path.string(), "no line for {} of the {} images, such as {}",
          waiting.size(), items.size(), waiting.empty() ? "" : excerpt(waiting.begin()->first));
}

std::vector<ImageItem> some_images_in(const Path& folder, std::int64_t label) {
  std::vector<ImageItem> items = images_in(folder, label);
  require(!items.empty(), folder.string(), "no images, expected JPEG files");
  return items;
}

std::vector<ImageItem> train_items(const Path& root, const std::vector<std::string>& ids) {
  std::vector<std::vector<ImageItem>> by_class;
  for (std::size_t c = 0; c < ids.size(); ++c) {
    const Path folder = root / "train" / ids[c];
    by_class.push_back(some_images_in(folder / "images", static_cast<std::int64_t>(c)));
    const Path boxes = folder / (ids[c] + "_boxes.txt");
    if (is_file(boxes))
      annotate(by_class.back(), boxes, false, [](ImageItem&, const Annotation&) {});
  }
  return interleaved(std::move(by_class));
}

std::vector<ImageItem> val_items(const Path& root, const std::vector<std::string>& ids) {
  std::unordered_map<std::string_view, std::int64_t> label_of;
  for (std::size_t i = 0; i < ids.size(); ++i)
    label_of.emplace(ids[i], static_cast<std::int64_t>(i));
  std::vector<ImageItem> items = some_images_in(root / "val" / "images", 0);
  const Path annotations = root / "val" / "val_annotations.txt";
  annotate(items, annotations, true, [&](ImageItem& item, const Annotation& a) {
    const auto label = label_of.find(a.class_id);
    require(label != label_of.end(), annotations.string(), "class {} of {} is not in wnids.txt",
            excerpt(a.class_id), excerpt(a.file));
    item.label = label->second;
  });
  return items;
}

}  // namespace

std::vector<Annotation> read_annotations(const Path& path, bool with_class) {
  const std::size_t first = with_class ? 2 : 1;
  std::vector<Annotation> annotations;
  for (const std::string& line : read_lines(path, kMaxTextBytes)) {
    const std::string where = fmt::format("{}:{}", path.string(), annotations.size() + 1);
    const std::vector<std::string_view> fields = split(line, '\t');
    require(fields.size() == first + 4, where, "{} fields separated by tabs, expected {}",
            fields.size(), first + 4);
    annotations.push_back({std::string(fields[0]), std::string(with_class ? fields[1] : ""),
                           parse_box(fields, first, where)});
  }
  return annotations;
}

std::unique_ptr<Dataset> open_tiny_imagenet(const Path& root, Split split) {
  const std::vector<std::string> ids = read_class_ids(root / "wnids.txt");
  DatasetInfo info;
  info.name = "tiny-imagenet";
  info.source = root.string();
  info.class_names = class_names(root / "words.txt", ids);
  info.normalization = {{0.4802f, 0.4481f, 0.3975f}, {0.2770f, 0.2691f, 0.2821f}};
  std::vector<ImageItem> items =
      split == Split::train ? train_items(root, ids) : val_items(root, ids);
  return cached(image_files(std::move(info), std::move(items), 0));
}

bool holds_tiny_imagenet(const Path& root) { return is_file(root / "wnids.txt"); }

}  // namespace hg
