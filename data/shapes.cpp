#include "data/shapes.h"

#include <algorithm>
#include <cmath>

#include "data/outline.h"
#include "tensor/base/error.h"
#include "tensor/random.h"

namespace hg {
namespace {

constexpr int kMinSide = 8, kMaxSide = 4096, kMaxChannels = 16;
constexpr std::uint64_t kDrawsPerItem = 1024;  // more than any item needs
constexpr int kGrid = 6;                       // knots of the ground's slow variation, each way
constexpr int kClutter = 4;
constexpr std::size_t kCacheBytes = std::size_t{64} << 20;  // a drawing takes 10 to 300 us

struct Counts {
  std::int64_t by_default, most;
};
Counts counts(Split split) {
  return split == Split::train ? Counts{4096, 60000} : Counts{1024, 10000};
}

// Draws of one item, in [low, high).
class Draws {
 public:
  Draws(RandomStream stream, std::int64_t item) : stream_(stream) {
    stream_.seek(static_cast<std::uint64_t>(item) * kDrawsPerItem);
  }
  float uniform(float low, float high) { return low + (high - low) * stream_.uniform(); }
  std::uint32_t bits() { return stream_.bits(); }

 private:
  RandomStream stream_;
};

// 32 well mixed bits of a counter, for noise in bulk.
std::uint32_t mixed(std::uint32_t v) {
  v = (v ^ v >> 16) * 0x7feb352du;
  v = (v ^ v >> 15) * 0x846ca68bu;
  return v ^ v >> 16;
}

// The working memory of one thread.
struct Canvas {
  CachedVector<float> coverage;  // [H,W] of the shape
  CachedVector<float> ground;    // one row
  CachedVector<float> between;   // how far x is from its left knot to the next, 0 to 1
  int begin[kGrid] = {};         // first x at or right of each knot; the last one is the end
  OutlineFill fill;
};

struct Stripes {
  float across_x, across_y, phase, strength;
  // A triangle wave, -1 to 1, times the strength.
  float at(float x, float y) const {
    const float t = x * across_x + y * across_y + phase;
    return strength * (4 * std::abs(t - std::floor(t) - 0.5f) - 1);
  }
};

struct Dab {
  int x0, y0, x1, y1;
};

class Shapes final : public Dataset {
 public:
  Shapes(DatasetInfo info, const ShapesOptions& options)
      : Dataset(std::move(info)),
        options_(options),
        stream_(options.seed,
                options.split == Split::train ? "data.shapes.train" : "data.shapes.test"),
        boxes_(static_cast<std::size_t>(options.count)) {
    for (std::int64_t i = 0; i < options.count; ++i) {
      Draws draws(stream_, i);
      boxes_[static_cast<std::size_t>(i)] = bounds(place_outline(i, draws));
    }
  }

  std::int64_t size() const override { return options_.count; }
  std::int64_t label(std::int64_t i) const override { return i % options_.classes; }
  const Box* box(std::int64_t i) const override { return &boxes_[static_cast<std::size_t>(i)]; }

  void get(std::int64_t i, Image& image) const override {
    thread_local Canvas canvas;
    const int side = options_.img_size;
    Draws draws(stream_, i);
    const Outline outline = place_outline(i, draws);
    canvas.coverage.assign(static_cast<std::size_t>(side) * side, 0);
    canvas.fill(outline, side, side, canvas.coverage.data());
    image.reshape(options_.channels, side, side);
    paint(draws, canvas, image);
  }

 private:
  // At a random place, wholly within the image.
  Outline place_outline(std::int64_t i, Draws& draws) const {
    const float side = static_cast<float>(options_.img_size);
    const float radius = side * draws.uniform(0.2f, 0.38f), angle = draws.uniform(-0.5f, 0.5f);
    Outline outline = transformed(make_outline(static_cast<int>(label(i))), radius, angle, 0, 0);
    const Box box = bounds(outline);
    const float x = draws.uniform(0, side - box.width()) - box.x0;
    const float y = draws.uniform(0, side - box.height()) - box.y0;
    return transformed(std::move(outline), 1, 0, x, y);
  }

  void paint(Draws& draws, Canvas& canvas, Image& image) const {
    const int side = options_.img_size;
    const Stripes stripes = draw_stripes(draws);
    Dab dabs[kClutter];
    for (Dab& dab : dabs) dab = draw_dab(draws);
    const std::uint32_t noise_key = draws.bits();
    prepare_knots(canvas);
    const auto brightest =
        static_cast<int>(draws.bits() % static_cast<std::uint32_t>(options_.channels));
    for (int c = 0; c < options_.channels; ++c) {
      // Shapes are vivid and the ground is dull: a small net learns what to look at in seconds.
      const float ground = draws.uniform(0.1f, 0.45f);
      const float shape = draws.uniform(c == brightest ? 0.85f : 0.35f, 1);
      float grid[kGrid][kGrid], colours[kClutter];
      for (auto& row : grid)
        for (float& knot : row) knot = ground + draws.uniform(-0.1f, 0.1f);
      for (float& colour : colours) colour = draws.uniform(0, 0.5f);
      for (int y = 0; y < side; ++y) {
        fill_ground_row(grid, stripes, y, canvas);
        for (int d = 0; d < kClutter; ++d)
          if (y >= dabs[d].y0 && y < dabs[d].y1)
            std::fill(canvas.ground.begin() + dabs[d].x0, canvas.ground.begin() + dabs[d].x1,
                      colours[d]);
        blend_row(canvas, y, shape, noise_key + static_cast<std::uint32_t>(c) * 0x9e3779b9u,
                  image.row(c, y));
      }
    }
  }

  Stripes draw_stripes(Draws& draws) const {
    const float angle = draws.uniform(0, 3.14159265f), period = draws.uniform(0.1f, 0.4f);
    const float waves = 1 / (period * static_cast<float>(options_.img_size));
    return {waves * std::cos(angle), waves * std::sin(angle), draws.uniform(0, 1),
            draws.uniform(0, 0.12f)};
  }

  Dab draw_dab(Draws& draws) const {
    const int side = options_.img_size;
    const float extent = static_cast<float>(side);
    const int size = std::max(1, static_cast<int>(extent * draws.uniform(0.05f, 0.14f)));
    const int x = static_cast<int>(draws.uniform(0, extent - static_cast<float>(size)));
    const int y = static_cast<int>(draws.uniform(0, extent - static_cast<float>(size)));
    return {x, y, x + size, y + size};
  }

  void prepare_knots(Canvas& canvas) const {
    const int side = options_.img_size;
    if (canvas.between.size() == static_cast<std::size_t>(side)) return;
    canvas.ground.resize(static_cast<std::size_t>(side));
    canvas.between.resize(static_cast<std::size_t>(side));
    for (int x = 0; x < side; ++x) {
      canvas.between[x] = static_cast<float>(x * (kGrid - 1) % side) / static_cast<float>(side);
      canvas.begin[x * (kGrid - 1) / side + 1] = x + 1;
    }
  }

  void fill_ground_row(const float (&grid)[kGrid][kGrid], Stripes stripes, int y,
                       Canvas& canvas) const {
    float knots[kGrid];
    const int above = y * (kGrid - 1) / options_.img_size;
    for (int k = 0; k < kGrid; ++k)
      knots[k] = grid[above][k] + (grid[above + 1][k] - grid[above][k]) * canvas.between[y];
    float* const ground = canvas.ground.data();
    const float* const between = canvas.between.data();
    const float line = static_cast<float>(y);
    for (int k = 0; k + 1 < kGrid; ++k) {
      const float left = knots[k], rise = knots[k + 1] - left;
      const int end = canvas.begin[k + 1];
      for (int x = canvas.begin[k]; x < end; ++x)
        ground[x] = left + rise * between[x] + stripes.at(static_cast<float>(x), line);
    }
  }

  void blend_row(Canvas& canvas, int y, float shape, std::uint32_t noise_key,
                 std::uint8_t* out) const {
    const int side = options_.img_size;
    const float* coverage = canvas.coverage.data() + static_cast<std::ptrdiff_t>(y) * side;
    float* ground = canvas.ground.data();
    const std::uint32_t first = noise_key + static_cast<std::uint32_t>(y * side);
    for (int x = 0; x < side; ++x) {
      const std::uint32_t bits = mixed(first + static_cast<std::uint32_t>(x)) >> 8;
      const float noise = 0.12f * (static_cast<float>(static_cast<int>(bits)) * 0x1p-24f - 0.5f);
      ground[x] += (shape - ground[x]) * coverage[x] + noise;
    }
    for (int x = 0; x < side; ++x)
      out[x] = static_cast<std::uint8_t>(
          std::min(255, std::max(0, static_cast<int>(255 * ground[x] + 0.5f))));
  }

  ShapesOptions options_;
  RandomStream stream_;
  std::vector<Box> boxes_;
};

}  // namespace

std::unique_ptr<Dataset> make_shapes(const ShapesOptions& options) {
  const auto check = [](std::int64_t value, const char* what, std::int64_t least,
                        std::int64_t most) {
    require(value >= least && value <= most, "shapes", "{} {}, expected {} to {}", value, what,
            least, most);
  };
  require(options.classes >= 2 && options.classes <= kOutlines, "model.num_classes",
          "expected 2 to {} with data.name = \"shapes\", got {}", kOutlines, options.classes);
  check(options.img_size, "pixels a side", kMinSide, kMaxSide);
  check(options.channels, "channels", 1, kMaxChannels);
  require(options.count >= 0, "shapes", "{} images, expected 0 or more", options.count);
  ShapesOptions resolved = options;
  const Counts allowed = counts(options.split);
  resolved.count = options.count == 0 ? allowed.by_default : std::min(options.count, allowed.most);

  DatasetInfo info;
  info.name = "shapes";
  info.source = "generated";
  for (int c = 0; c < options.classes; ++c) info.class_names.emplace_back(outline_name(c));
  info.normalization.mean.assign(static_cast<std::size_t>(options.channels), 0.5f);
  info.normalization.stddev.assign(static_cast<std::size_t>(options.channels), 0.21f);
  return cached(std::make_unique<Shapes>(std::move(info), resolved), kCacheBytes);
}

}  // namespace hg
