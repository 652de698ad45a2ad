#include "tensor/ops/patch_scores.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/scratch.h"

namespace hg::ops {
namespace {

using Heuristic = PatchScoreOptions::Heuristic;
using Form = PatchScoreOptions::Form;
using Byte = std::uint8_t;
constexpr int kValues = 256;

// One row of patches: line y of channel c starts at pixels + c * plane + y * width.
struct Band {
  const Byte* pixels;
  std::int64_t channels, plane, width, patch;

  std::int64_t across() const { return width / patch; }
  std::int64_t area() const { return patch * patch; }
  const Byte* line(std::int64_t c, std::int64_t y) const { return pixels + c * plane + y * width; }
};

// Bytes may alias anything; without __restrict no loop over them is vectorised.
void luminance(std::int64_t n, const Byte* r, const Byte* g, const Byte* b, Byte* __restrict y) {
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<Byte>((299u * r[i] + 587u * g[i] + 114u * b[i] + 500u) / 1000u);
}

// Counts of each value >> shift in a patch.
void count_values(const Byte* lines, const Band& band, int shift, std::uint32_t* counts) {
  constexpr std::int64_t kFew = 128;
  if (band.area() <= kFew) {
    std::fill_n(counts, kValues, 0u);
    for (std::int64_t y = 0; y < band.patch; ++y)
      for (std::int64_t x = 0; x < band.patch; ++x) ++counts[lines[y * band.width + x] >> shift];
    return;
  }
  // Neighbours are often equal: four tables in turn keep one increment from waiting for the other.
  std::uint32_t tables[4][kValues] = {};
  for (std::int64_t y = 0; y < band.patch; ++y) {
    const Byte* line = lines + y * band.width;
    std::int64_t x = 0;
    for (; x + 4 <= band.patch; x += 4)
      for (int t = 0; t < 4; ++t) ++tables[t][line[x + t] >> shift];
    for (; x < band.patch; ++x) ++tables[0][line[x] >> shift];
  }
  for (int v = 0; v < kValues; ++v)
    counts[v] = tables[0][v] + tables[1][v] + tables[2][v] + tables[3][v];
}

// The value that `rank` values reach, counted from 0 upwards or from 255 downwards.
int value_from_below(const std::uint32_t* counts, std::int64_t rank) {
  int v = 0;
  for (std::int64_t seen = counts[0]; seen < rank; seen += counts[v]) ++v;
  return v;
}
int value_from_above(const std::uint32_t* counts, std::int64_t rank) {
  int v = kValues - 1;
  for (std::int64_t seen = counts[v]; seen < rank; seen += counts[v]) --v;
  return v;
}

// Nearest rank: P_q is the value of rank ceil(q n / 100) from below.
float robust_contrast(const std::uint32_t* counts, std::int64_t n) {
  const int low = value_from_below(counts, (5 * n + 99) / 100);
  const int high = value_from_above(counts, n - (95 * n + 99) / 100 + 1);
  return static_cast<float>(high - low) / static_cast<float>(high + low + 16);
}

// -sum p log2 p = log2 n - sum (c log2 c) / n; terms[c] = c log2 c
float entropy_bits(const std::uint32_t* counts, std::int64_t bins, std::int64_t n,
                   const double* terms) {
  double sums[8] = {};
  for (std::int64_t b = 0; b < bins; b += 8)
    for (int j = 0; j < 8; ++j) sums[j] += terms[counts[b + j]];
  const double sum =
      ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  const auto area = static_cast<double>(n);
  return static_cast<float>(std::max(0.0, std::log2(area) - sum / area));
}

// score(counts) of each patch's luminance
void score_histograms(const Band& band, int shift, float* scores, auto score) {
  const cpu::Scratch<Byte> gray(band.channels == 3 ? band.patch * band.width : 0);
  if (band.channels == 3)
    luminance(band.patch * band.width, band.line(0, 0), band.line(1, 0), band.line(2, 0), gray);
  const Byte* lines = band.channels == 3 ? gray : band.pixels;
  std::uint32_t counts[kValues];
  for (std::int64_t i = 0; i < band.across(); ++i) {
    count_values(lines + i * band.patch, band, shift, counts);
    scores[i] = score(counts);
  }
}

// Largest and smallest value of each column of channel c.
void column_extremes(const Band& band, std::int64_t c, Byte* __restrict high,
                     Byte* __restrict low) {
  const std::int64_t width = band.width;
  std::fill_n(high, width, Byte{0});
  std::fill_n(low, width, Byte{kValues - 1});
  for (std::int64_t y = 0; y < band.patch; ++y) {
    const Byte* const line = band.line(c, y);
    for (std::int64_t x = 0; x < width; ++x) {
      const Byte v = line[x], h = high[x], l = low[x];
      high[x] = v > h ? v : h;
      low[x] = v < l ? v : l;
    }
  }
}

// Paper and ref: (max - min + 1e-8) / (max + min); a positive scale keeps a channel's extremes.
void score_extremes(const Band& band, const PatchScoreOptions& o, float* scores) {
  const bool ref = o.form == Form::ref;
  const std::int64_t across = band.across();
  const cpu::Scratch<Byte> high(band.width), low(band.width);
  const cpu::Scratch<float> most(across), least(across);
  for (std::int64_t c = 0; c < band.channels; ++c) {
    column_extremes(band, c, high, low);
    const float scale = ref ? o.scale[c] : 1;
    const float bias = ref ? o.bias[c] : 0;
    for (std::int64_t i = 0; i < across; ++i) {
      const Byte* const h = high + i * band.patch;
      const Byte* const l = low + i * band.patch;
      const float top = scale * *std::max_element(h, h + band.patch) + bias;
      const float bottom = scale * *std::min_element(l, l + band.patch) + bias;
      most[i] = c == 0 ? top : std::max(most[i], top);
      least[i] = c == 0 ? bottom : std::min(least[i], bottom);
    }
  }
  for (std::int64_t i = 0; i < across; ++i) {
    const bool black = !ref && most[i] == 0;
    scores[i] = black ? 0 : (most[i] - least[i] + 1e-8f) / (most[i] + least[i]);
  }
}

// sum (x - mean)^2 / (n - 1) = (n sum x^2 - (sum x)^2) / (n (n - 1)): exact in integers.
void score_variance(const Band& band, float* scores) {
  const cpu::Scratch<std::uint32_t> sum(band.width), square(band.width);
  const auto n = static_cast<std::uint64_t>(band.area());
  const double scale = 1 / (static_cast<double>(n) * static_cast<double>(n - 1) *
                            static_cast<double>(band.channels));
  std::fill_n(scores, band.across(), 0.0f);
  for (std::int64_t c = 0; c < band.channels; ++c) {
    std::fill_n(&sum[0], band.width, 0u);
    std::fill_n(&square[0], band.width, 0u);
    for (std::int64_t y = 0; y < band.patch; ++y) {
      const Byte* line = band.line(c, y);
      for (std::int64_t x = 0; x < band.width; ++x) {
        const std::uint32_t v = line[x];
        sum[x] += v;
        square[x] += v * v;
      }
    }
    for (std::int64_t i = 0; i < band.across(); ++i) {
      std::uint64_t s = 0, q = 0;
      for (std::int64_t x = i * band.patch; x < (i + 1) * band.patch; ++x)
        s += sum[x], q += square[x];
      scores[i] += static_cast<float>(static_cast<double>(n * q - s * s) * scale);
    }
  }
}

// Ref: mean of terms[value]
void score_terms(const Band& band, const float* terms, float* scores) {
  const cpu::Scratch<float> sum(band.width);
  std::fill_n(&sum[0], band.width, 0.0f);
  for (std::int64_t c = 0; c < band.channels; ++c)
    for (std::int64_t y = 0; y < band.patch; ++y) {
      const Byte* line = band.line(c, y);
      for (std::int64_t x = 0; x < band.width; ++x) sum[x] += terms[line[x]];
    }
  for (std::int64_t i = 0; i < band.across(); ++i) {
    double all = 0;
    for (std::int64_t x = i * band.patch; x < (i + 1) * band.patch; ++x) all += sum[x];
    scores[i] = static_cast<float>(all / static_cast<double>(band.area() * band.channels));
  }
}

// body(band, its scores) for every row of patches
void for_each_band(const Tensor& images, std::int64_t patch, const Tensor& out, auto body) {
  const Shape& s = images.shape();
  const std::int64_t down = s[2] / patch, across = s[3] / patch, plane = s[2] * s[3];
  const Byte* pixels = images.data<Byte>();
  float* scores = out.data<float>();
  cpu::parallel_each(s[0] * down, 1, [&](std::int64_t i) {
    const Byte* const first = pixels + i / down * s[1] * plane + i % down * patch * s[3];
    body(Band{first, s[1], plane, s[3], patch}, scores + i * across);
  });
}

bool by_histogram(const PatchScoreOptions& o) {
  return o.heuristic == Heuristic::contrast
             ? o.form == Form::robust
             : o.heuristic == Heuristic::entropy && o.form != Form::ref;
}

std::int64_t bins_of(const PatchScoreOptions& o) {
  return o.heuristic == Heuristic::entropy ? o.bins : kValues;
}

}  // namespace

TensorSpecs PatchScores::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_dtype(*this, in, 0, DType::u8);
  expect_rank(*this, in, 0, 4);
  require(options.heuristic != Heuristic::random, name(), "random patches have no score");
  const Shape& s = in[0].shape();
  const std::int64_t least = options.heuristic == Heuristic::variance ? 2 : 1;
  require(s[1] == 1 || s[1] == 3, name(), "expected images of 1 or 3 channels, got {}", in[0]);
  require(options.patch >= least, name(), "patch side {}, expected {} or more", options.patch,
          least);
  require(s[2] % options.patch == 0 && s[3] % options.patch == 0, name(),
          "patch side {} does not divide images of {}", options.patch, s);
  require(options.bins == 256 || options.bins == 32, name(), "{} bins, expected 256 or 32",
          options.bins);
  for (const float scale : options.scale)
    require(scale > 0, name(), "a scale of {}, expected more than 0", scale);
  return {TensorSpec{
      DType::f32, {s[0], (s[2] / options.patch) * (s[3] / options.patch)}, in[0].device()}};
}

// histogram: per pixel 5 for luminance (of RGB) and 1 to count, 1 per bin; extremes: 2 per value;
// variance: 3 (square, two sums); ref entropy: 1 (terms come from a table made once)
CostParts PatchScores::cost(In in, In out) const {
  const Shape& s = in[0].shape();
  const std::uint64_t values = count(in[0]);
  if (by_histogram(options)) {
    const std::uint64_t pixels = values / static_cast<std::uint64_t>(s[1]);
    const std::uint64_t bins = count(out[0]) * static_cast<std::uint64_t>(bins_of(options));
    return elementwise_cost(in, out, pixels * (s[1] == 3 ? 6 : 1) + bins);
  }
  const std::uint64_t each = options.heuristic == Heuristic::contrast   ? 2
                             : options.heuristic == Heuristic::variance ? 3
                                                                        : 1;
  return elementwise_cost(in, out, values * each);
}

void PatchScores::cpu(In in, Out out) const {
  const auto each_band = [&](auto body) { for_each_band(in[0], options.patch, out[0], body); };
  const std::int64_t n = options.patch * options.patch;
  if (options.heuristic == Heuristic::variance) return each_band(score_variance);
  if (options.heuristic == Heuristic::contrast) {
    if (options.form != Form::robust)
      return each_band([&](const Band& b, float* s) { score_extremes(b, options, s); });
    return each_band([&](const Band& b, float* s) {
      score_histograms(b, 0, s, [&](const std::uint32_t* c) { return robust_contrast(c, n); });
    });
  }
  if (options.form == Form::ref) {
    float terms[kValues] = {};
    for (int v = 1; v < kValues; ++v)
      terms[v] = static_cast<float>(-(v / 255.0) * std::log(v / 255.0));
    return each_band([&](const Band& b, float* s) { score_terms(b, terms, s); });
  }
  const cpu::Scratch<double> terms(n + 1);
  terms[0] = 0;
  for (std::int64_t c = 1; c <= n; ++c)
    terms[c] = static_cast<double>(c) * std::log2(static_cast<double>(c));
  each_band([&](const Band& b, float* s) {
    score_histograms(b, options.bins == 32 ? 3 : 0, s, [&](const std::uint32_t* c) {
      return entropy_bits(c, options.bins, n, terms);
    });
  });
}

Samples PatchScores::samples() {
  Samples all;
  for (const Heuristic h : {Heuristic::contrast, Heuristic::variance, Heuristic::entropy})
    for (const Form f : {Form::robust, Form::paper, Form::ref}) {
      PatchScoreOptions o;
      o.heuristic = h, o.form = f;
      o.scale = {0.02f, 0.01f, 0.03f}, o.bias = {3, -1, 0.5f};
      const auto add = [&](std::int64_t patch, const Shape& shape, std::int64_t end) {
        o.patch = patch;
        all.push_back(sample(PatchScores(o), {S::pixels(shape, end)}));
      };
      add(16, {2, 3, 32, 48}, 256);
      add(4, {3, 1, 8, 12}, 40);
      add(7, {1, 3, 7, 14}, 1);
      add(197, {1, 1, 197, 197}, 200);
      add(2, {0, 3, 4, 4}, 256);
      o.bins = 32;
      add(8, {2, 3, 8, 16}, 256);
    }
  return all;
}

}  // namespace hg::ops
