// Scores, weights and the choice of patches against the values of nn/METHODS.md, section 4.
#include "data/patch_select.h"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "tensor/ops/patchify.h"
#include "tests/data/files.h"

namespace hg::testing {
namespace {

using Heuristic = PatchScoreOptions::Heuristic;
using Form = PatchScoreOptions::Form;
using Ids = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PatchScoreOptions options(Heuristic heuristic, Form form, std::int64_t patch) {
  PatchScoreOptions o;
  o.heuristic = heuristic, o.form = form, o.patch = patch;
  return o;
}

// The score of a gray patch that is a whole image.
double score(const std::vector<int>& values, const PatchScoreOptions& o) {
  const std::vector<std::uint8_t> bytes(values.begin(), values.end());
  return patch_scores(Tensor::of<std::uint8_t>({1, 1, o.patch, o.patch}, bytes), o).item<float>();
}

std::vector<int> repeated(std::initializer_list<std::pair<int, int>> runs) {
  std::vector<int> values;
  for (const auto& [count, value] : runs)
    values.insert(values.end(), static_cast<std::size_t>(count), value);
  return values;
}

Ids drawn(std::vector<double> weights, std::size_t k, std::uint64_t image, std::uint64_t key = 7) {
  Ids keep(k);
  PatchChooser().draw(weights, key, image, keep);
  return keep;
}

Ids largest(const std::vector<double>& scores, std::size_t k) {
  Ids keep(k);
  PatchChooser().take_largest(scores, keep);
  return keep;
}

PatchSelection selection(std::int64_t patch, std::int64_t keep) {
  PatchSelection s;
  s.score = options(Heuristic::contrast, Form::robust, patch);
  s.keep = keep;
  return s;
}

double probability(PatchSelection::Decay decay, std::int64_t epoch) {
  PatchSelection s = selection(4, 1);
  s.prob = 0.5, s.decay_rate = 5e-3, s.decay = decay;
  return filter_probability(s, epoch);
}

Tensor noise(std::int64_t channels, std::int64_t side) {
  const Tensor t = Tensor::empty({1, channels, side, side}, DType::u8);
  RandomStream stream(3, "noise");
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(stream.below(256));
  return t;
}

const Normalization kColours{{0.41f, 0.51f, 0.61f}, {0.2f, 0.25f, 0.3f}};

}  // namespace

TEST_CASE("scores have the values the paper's formulas give") {
  const std::vector<int> four{0, 255, 10, 20};
  CHECK(score(four, options(Heuristic::contrast, Form::paper, 2)) == doctest::Approx(1.0));
  for (const Form form : {Form::robust, Form::paper, Form::ref})
    CHECK(score(four, options(Heuristic::variance, form, 2)) ==
          doctest::Approx(15072.9167).epsilon(1e-7));
  const auto three = repeated({{8, 0}, {4, 255}, {4, 7}});
  CHECK(score(three, options(Heuristic::entropy, Form::robust, 4)) == doctest::Approx(1.5));
  CHECK(score(three, options(Heuristic::entropy, Form::paper, 4)) == doctest::Approx(1.5));
}

TEST_CASE("robust contrast sees percentiles by nearest rank rather than single pixels") {
  const PatchScoreOptions o = options(Heuristic::contrast, Form::robust, 10);
  CHECK(score(repeated({{100, 0}}), o) == 0);
  CHECK(score(repeated({{100, 200}}), o) == 0);
  // Of 100 values, rank 5 is P5 and rank 95 is P95.
  CHECK(score(repeated({{4, 0}, {91, 100}, {5, 255}}), o) == 0);
  CHECK(score(repeated({{5, 0}, {90, 100}, {5, 255}}), o) == doctest::Approx(100.0 / 116));
  CHECK(score(repeated({{4, 0}, {90, 100}, {6, 255}}), o) == doctest::Approx(155.0 / 371));
  CHECK(score(repeated({{5, 40}, {95, 41}}), o) == doctest::Approx(1.0 / 97));
}

TEST_CASE("paper contrast of a black patch is 0 and one pixel saturates it") {
  const PatchScoreOptions o = options(Heuristic::contrast, Form::paper, 4);
  CHECK(score(repeated({{16, 0}}), o) == 0);
  CHECK(score(repeated({{15, 0}, {1, 255}}), o) == doctest::Approx(1.0));
  CHECK(score(repeated({{15, 3}, {1, 9}}), o) == doctest::Approx(0.5));
}

TEST_CASE("entropy counts bins of luminance") {
  PatchScoreOptions o = options(Heuristic::entropy, Form::robust, 8);
  std::vector<int> all(64);
  for (int i = 0; i < 64; ++i) all[static_cast<std::size_t>(i)] = 4 * i;
  CHECK(score(all, o) == doctest::Approx(6.0));  // the bound log2(64)
  o.bins = 32;
  CHECK(score(all, o) == doctest::Approx(5.0));
  CHECK(score(repeated({{32, 16}, {32, 23}}), o) == 0);  // one bin of eight values
  o.bins = 256;
  CHECK(score(repeated({{32, 16}, {32, 23}}), o) == doctest::Approx(1.0));
}

TEST_CASE("luminance is rounded half up from exact thousandths") {
  // 0.299 R + 0.587 G + 0.114 B of (0, 0, 250) is 28.5, of (0, 0, 246) 28.044: 29 and 28.
  const std::vector<std::uint8_t> bytes{0, 0, 0, 0, 0, 0, 0, 0, 250, 250, 246, 246};
  const auto bits = [&](std::vector<std::uint8_t> pixels) {
    return patch_scores(Tensor::of<std::uint8_t>({1, 3, 2, 2}, pixels),
                        options(Heuristic::entropy, Form::robust, 2))
        .item<float>();
  };
  CHECK(bits(bytes) == doctest::Approx(1.0));
  // (29, 29, 29) is 29, too
  CHECK(bits({0, 29, 0, 29, 0, 29, 0, 29, 250, 29, 250, 29}) == 0);
}

TEST_CASE("ref scores are the reference's: normalised contrast and mean -x ln x") {
  PatchScoreOptions o = options(Heuristic::contrast, Form::ref, 2);
  o.scale = {0.02f, 1, 1}, o.bias = {-2, 0, 0};
  CHECK(score({0, 150, 10, 20}, o) == doctest::Approx((1.0 + 2.0) / (1.0 - 2.0)));
  CHECK_FALSE(std::isfinite(score({50, 150, 100, 100}, o)));  // max + min = 0
  o = options(Heuristic::entropy, Form::ref, 2);
  const double x = 51.0 / 255;
  CHECK(score({0, 51, 255, 51}, o) == doctest::Approx(-2 * x * std::log(x) / 4));
}

TEST_CASE("weights follow from scores by form") {
  const auto weights = [](std::vector<double> s, Form form, bool usable = true) {
    CHECK(weights_from_scores(s, form) == usable);
    return s;
  };
  const std::vector<double> even{1, 1, 1};
  CHECK(weights({3, 0, 1}, Form::paper) == std::vector<double>{3, 0, 1});
  CHECK(weights({3, -1, 1}, Form::paper) == std::vector<double>{3, 0, 1});
  const auto robust = weights({3, 0, 1.5}, Form::robust);
  CHECK(robust[0] == doctest::Approx(3 + 1.5e-3));
  CHECK(robust[1] == doctest::Approx(1.5e-3));
  CHECK(weights({3, 1, 2}, Form::ref) == std::vector<double>{1, 0, 0.5});
  for (const Form form : {Form::robust, Form::paper, Form::ref}) {
    CHECK(weights({0, 0, 0}, form, false) == even);
    CHECK(weights({1, std::nan(""), 2}, form, false) == even);
    CHECK(weights({1, kInfinity, 2}, form, false) == even);
  }
  CHECK(weights({2, 2, 2}, Form::ref, false) == even);
}

TEST_CASE("100000 draws of two of three follow the probabilities of successive draws") {
  constexpr int kDraws = 100000;
  std::map<Ids, int> pairs;
  for (int i = 0; i < kDraws; ++i) ++pairs[drawn({.5, .3, .2}, 2, static_cast<std::uint64_t>(i))];
  REQUIRE(pairs.size() == 3);
  const std::map<Ids, double> expected{{{0, 1}, 0.514286}, {{0, 2}, 0.325}, {{1, 2}, 0.160714}};
  double chi2 = 0;
  for (const auto& [pair, p] : expected) {
    const double difference = pairs[pair] - p * kDraws;
    chi2 += difference * difference / (p * kDraws);
  }
  CHECK(chi2 < 13.8);  // two degrees of freedom: one in a thousand
  const double included[3] = {0.839286, 0.675, 0.485714};
  for (std::int64_t i = 0; i < 3; ++i) {
    double count = 0;
    for (const auto& [pair, n] : pairs) count += pair[0] == i || pair[1] == i ? n : 0;
    const double p = included[i], sigma = std::sqrt(p * (1 - p) * kDraws);
    CHECK(std::abs(count - p * kDraws) < 4 * sigma);
  }
}

TEST_CASE("a weight of 0 is drawn only when the positive ones run out") {
  int first = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    CHECK(drawn({0, 1e-200, 0, 5, 0}, 2, i) == Ids{1, 3});
    const Ids three = drawn({0, 1, 0, 5, 0}, 3, i);
    CHECK(std::count(three.begin(), three.end(), 1) + std::count(three.begin(), three.end(), 3) ==
          2);
    first += three[0] == 0;
  }
  CHECK(std::abs(first - 2000 / 3) < 90);  // and then each alike
}

TEST_CASE("a draw depends on stream and image alone") {
  const std::vector<double> w(50, 1.0);
  CHECK(drawn(w, 20, 3) == drawn(w, 20, 3));
  CHECK(drawn(w, 20, 3) != drawn(w, 20, 4));
  CHECK(drawn(w, 20, 3) != drawn(w, 20, 3, 8));
  const Ids keep = drawn(w, 20, 3);
  CHECK(std::is_sorted(keep.begin(), keep.end()));
  CHECK(std::adjacent_find(keep.begin(), keep.end()) == keep.end());
  Ids all(50);
  std::iota(all.begin(), all.end(), 0);
  CHECK(drawn(w, 50, 3) == all);
}

TEST_CASE("the largest scores are taken and of equal ones the first") {
  CHECK(largest({1, 5, 3, 5, 5, 0}, 2) == Ids{1, 3});
  CHECK(largest({1, 5, 3, 5, 5, 0}, 4) == Ids{1, 2, 3, 4});
  CHECK(largest({0, 0, 0, 0}, 2) == Ids{0, 1});
}

TEST_CASE("the probability of filtering falls with the epoch as nn/METHODS.md tabulates") {
  using D = PatchSelection::Decay;
  for (const D decay : {D::inverse, D::exp, D::ref_compound}) CHECK(probability(decay, 0) == 0.5);
  CHECK(probability(D::inverse, 10) == doctest::Approx(.476).epsilon(1e-3));
  CHECK(probability(D::inverse, 50) == doctest::Approx(.400));
  CHECK(probability(D::inverse, 100) == doctest::Approx(1.0 / 3));
  CHECK(probability(D::exp, 100) == doctest::Approx(0.5 * std::exp(-0.5)));
  CHECK(probability(D::ref_compound, 10) == doctest::Approx(.382).epsilon(1e-3));
  CHECK(probability(D::ref_compound, 50) == doctest::Approx(.00137).epsilon(3e-3));
  CHECK(probability(D::ref_compound, 100) == doctest::Approx(1.6e-10).epsilon(3e-2));
}

TEST_CASE("the number of kept patches moves evenly from the first epoch to the last") {
  PatchSelection s = selection(4, 5);
  for (const std::int64_t epoch : {0, 1, 100}) CHECK(s.kept_in(epoch) == 5);
  s.keep_end = 16, s.epochs = 5;  // 5, 7.75, 10.5, 13.25, 16
  Ids kept;
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) kept.push_back(s.kept_in(epoch));
  CHECK(kept == Ids{5, 8, 11, 13, 16, 16});
  s.keep = 16, s.keep_end = 5;
  kept.clear();
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) kept.push_back(s.kept_in(epoch));
  CHECK(kept == Ids{16, 13, 11, 8, 5});
  s.epochs = 1;
  CHECK(s.kept_in(0) == 16);
  CHECK(fault_of([&] { check_selection(s, 12, 12); }) ==
        "select: expected to keep 1 to 9 patches, got 16");
}

TEST_CASE("as many batches are filtered as prob says") {
  PatchSelection s = selection(4, 1);
  s.prob = 0.3;
  int filtered = 0;
  for (std::int64_t batch = 0; batch < 10000; ++batch) filtered += filters_batch(s, 1, 5, batch);
  CHECK(std::abs(filtered - 3000) < 200);
  s.prob = 0;
  for (std::int64_t batch = 0; batch < 100; ++batch) CHECK_FALSE(filters_batch(s, 1, 0, batch));
  s.prob = 1;
  for (std::int64_t batch = 0; batch < 100; ++batch) CHECK(filters_batch(s, 1, 0, batch));
}

TEST_CASE("a constant image gives a uniform choice and is counted") {
  for (const Form form : {Form::robust, Form::paper, Form::ref})
    for (const Heuristic h : {Heuristic::contrast, Heuristic::variance, Heuristic::entropy}) {
      PatchSelection s = selection(4, 3);
      s.score = options(h, form, 4);
      PatchSelector select(s, Normalizer({{0.5f}, {0.5f}}));
      const Tensor black = Tensor::zeros({1, 1, 12, 12}, DType::u8);
      std::vector<int> kept(9, 0);
      std::vector<float> out(3 * 16);
      for (std::int64_t image = 0; image < 3000; ++image) {
        std::int64_t keep[3];
        select(black, 5, image, keep, out.data());
        for (const std::int64_t i : keep) ++kept[static_cast<std::size_t>(i)];
      }
      for (const int count : kept) CHECK(std::abs(count - 1000) < 130);
      for (const float v : out) CHECK(v == -1.0f);
      // Ref contrast of normalised black is (0 + 1e-8) / -2: usable before, not after scaling.
      CHECK(select.take_tally().unscored == 3000);
    }
}

TEST_CASE("random patches are drawn uniformly whatever they show and nothing is scored") {
  PatchSelection s = selection(4, 3);
  s.score = options(Heuristic::random, Form::robust, 4);
  PatchSelector select(s, Normalizer(kColours));
  const Tensor one_bright = Tensor::zeros({1, 3, 12, 12}, DType::u8);
  for (std::int64_t i = 0; i < 3; ++i) one_bright.data<std::uint8_t>()[i * 144] = 255;
  std::vector<int> kept(9, 0);
  std::vector<float> out(3 * 3 * 16);
  for (std::int64_t image = 0; image < 3000; ++image) {
    std::int64_t keep[3], plain[3];
    select(one_bright, 5, image, keep, out.data());
    PatchChooser().draw(std::vector<double>(9, 1.0), 5, static_cast<std::uint64_t>(image), plain);
    CHECK(std::equal(keep, keep + 3, plain));
    for (const std::int64_t i : keep) ++kept[static_cast<std::size_t>(i)];
  }
  for (const int count : kept) CHECK(std::abs(count - 1000) < 130);
  const PatchSelector::Tally tally = select.take_tally();
  CHECK(tally.flops == 0);
  CHECK(tally.unscored == 0);
  s.probabilistic = false;
  CHECK(fault_of([&] { check_selection(s, 12, 12); }) ==
        "select: random patches have no best ones to take");
  CHECK(fault_of([&] { patch_scores(one_bright, s.score); }) ==
        "patch_scores: random patches have no score");
}

TEST_CASE("kept patches are the normalised image's bit for bit") {
  const Tensor pixels = noise(3, 24);
  const Normalizer normalize(kColours);
  const Tensor image = Tensor::empty(pixels.shape());
  normalize(pixels.data<std::uint8_t>(), 24 * 24, image.data<float>());
  for (const std::int64_t patch : {2, 4, 8, 12}) {
    const std::int64_t n = (24 / patch) * (24 / patch);
    for (const std::int64_t k : {std::int64_t{1}, n / 2 + 1, n}) {
      PatchSelection s = selection(patch, k);
      const Tensor keep = Tensor::empty({1, k}, DType::i64);
      const Tensor dropped = Tensor::empty({1, k, 3 * patch * patch});
      const auto ids = [&](const Tensor& t) {
        return std::span(t.data<std::int64_t>(), static_cast<std::size_t>(k));
      };
      PatchSelector(s, normalize)(pixels, 1, 2, ids(keep), dropped.data<float>());
      CHECK(dropped.to_vector<float>() == patchify(image, patch, keep).to_vector<float>());
      s.mode = PatchSelection::Mode::zero;
      const Tensor zeroed = Tensor::empty(pixels.shape()), same = Tensor::empty({1, k}, DType::i64);
      PatchSelector(s, normalize)(pixels, 1, 2, ids(same), zeroed.data<float>());
      CHECK(same.to_vector<std::int64_t>() == keep.to_vector<std::int64_t>());
      CHECK(patchify(zeroed, patch, keep).to_vector<float>() == dropped.to_vector<float>());
      std::int64_t zeros = 0;
      for (const float v : zeroed.to_vector<float>()) zeros += v == 0;
      CHECK(zeros == (n - k) * 3 * patch * patch);
    }
  }
}

TEST_CASE("keeping no patch or more than there are is an error") {
  CHECK_NOTHROW(check_selection(selection(4, 1), 8, 12));
  CHECK_NOTHROW(check_selection(selection(4, 6), 8, 12));
  CHECK(fault_of([] { check_selection(selection(4, 0), 8, 12); }) ==
        "select: expected to keep 1 to 6 patches, got 0");
  CHECK(fault_of([] { check_selection(selection(4, 7), 8, 12); }) ==
        "select: expected to keep 1 to 6 patches, got 7");
  CHECK(fault_of([] { check_selection(selection(5, 1), 8, 12); }) ==
        "select: patches of 5 don't tile images of 8 x 12");
}

TEST_CASE("scores refuse images and options they are not defined for") {
  const auto fault = [](const Shape& shape, const PatchScoreOptions& o) {
    return fault_of([&] { patch_scores(Tensor::zeros(shape, DType::u8), o); });
  };
  const PatchScoreOptions o = options(Heuristic::variance, Form::robust, 1);
  CHECK(fault({1, 1, 4, 4}, o) == "patch_scores: patch side 1, expected 2 or more");
  CHECK(contains(fault({1, 2, 4, 4}, options(Heuristic::contrast, Form::robust, 2)),
                 "1 or 3 channels"));
  CHECK(contains(fault({1, 1, 4, 5}, options(Heuristic::contrast, Form::robust, 2)), "divide"));
  CHECK(fault_of([] {
          patch_scores(Tensor::zeros({1, 1, 4, 4}), options(Heuristic::contrast, Form::paper, 2));
        }) == "patch_scores: input 0 must be u8, got f32[1,1,4,4]");
}

}  // namespace hg::testing
