// A data set: a number of items, each an 8-bit image with a label and perhaps a box. Wrappers
// (limited, cached) can be combined.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/allocator.h"

namespace hg {

enum class Split { train, test };

using Bytes = CachedVector<std::uint8_t>;

struct Image {
  int channels = 0, height = 0, width = 0;
  Bytes pixels;  // [C,H,W]

  // Contents are unspecified afterwards; the buffer is reused.
  void reshape(int new_channels, int new_height, int new_width) {
    channels = new_channels, height = new_height, width = new_width;
    pixels.resize(static_cast<std::size_t>(channels) * plane());
  }
  // Fills RGB planes from pixels of three bytes.
  void take_interleaved(const std::uint8_t* rgb);
  std::size_t plane() const { return static_cast<std::size_t>(height) * width; }
  std::uint8_t* row(int c, int y) { return pixels.data() + c * plane() + y * std::size_t(width); }
  const std::uint8_t* row(int c, int y) const { return const_cast<Image*>(this)->row(c, y); }
};

// In pixels; x1 and y1 lie one past the last pixel, so that a single pixel is 1 wide.
struct Box {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;

  float width() const { return x1 - x0; }
  float height() const { return y1 - y0; }
  float area() const { return x1 > x0 && y1 > y0 ? width() * height() : 0; }
};

// Per channel, on the scale where 255 is 1: x -> (x - mean) / stddev.
struct Normalization {
  std::vector<float> mean, stddev;

  int channels() const { return static_cast<int>(mean.size()); }
  // The same for images converted between gray and RGB.
  Normalization for_channels(int wanted) const;
  bool operator==(const Normalization&) const = default;
};

struct DatasetInfo {
  std::string name;
  std::string source;  // the folder it was read from, or how it was made
  std::vector<std::string> class_names;
  Normalization normalization;
  std::string held_out =
      "";               // which images of it are for testing, where it has no split of its own
  bool files = false;   // an item is a file of its own, read when it is asked for
  bool mirrors = true;  // a mirrored image keeps its class (not so for digits)
};

class Dataset {
 public:
  explicit Dataset(DatasetInfo info);  // names of classes become printable
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual std::int64_t size() const = 0;
  // Item i in [0, size()), at its own size. Any number of threads may call at once, each with its
  // own image, whose buffer is reused.
  virtual void get(std::int64_t i, Image& image) const = 0;
  virtual std::int64_t label(std::int64_t i) const = 0;
  virtual const Box* box(std::int64_t) const { return nullptr; }  // null: none is known

  const DatasetInfo& info() const { return info_; }
  std::int64_t classes() const { return static_cast<std::int64_t>(info_.class_names.size()); }
  const std::vector<std::string>& class_names() const { return info_.class_names; }
  const Normalization& normalization() const { return info_.normalization; }

 private:
  DatasetInfo info_;
};

// The first `count` items in the data set's order; all of them if it has no more.
std::unique_ptr<Dataset> limited(std::unique_ptr<Dataset> base, std::int64_t count);

// A part of a set of which `count` items (1 to all but one) are for testing, the others for
// training. Those are spread evenly, so that a set sorted by class has every class among them.
std::unique_ptr<Dataset> held_out(std::unique_ptr<Dataset> base, std::int64_t count, Split part);

// Without these items, which are in order.
std::unique_ptr<Dataset> without(std::unique_ptr<Dataset> base,
                                 const std::vector<std::int64_t>& items);

// Keeps images in memory until `budget_bytes` are used; the others are made anew each time.
std::unique_ptr<Dataset> cached(std::unique_ptr<Dataset> base,
                                std::size_t budget_bytes = std::size_t{512} << 20);

}  // namespace hg
