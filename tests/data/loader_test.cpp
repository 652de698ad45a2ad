#include "data/loader.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "data/shapes.h"
#include "tensor/backend.h"
#include "tensor/cpu/parallel.h"
#include "tensor/observer.h"
#include "tensor/ops/patchify.h"
#include "tests/data/files.h"

namespace hg::testing {
namespace {

std::unique_ptr<Dataset> some_shapes(std::int64_t count = 23) {
  ShapesOptions options;
  options.img_size = 16, options.classes = 3, options.count = count;
  return make_shapes(options);
}

LoaderOptions options_for(std::int64_t batch_size) {
  LoaderOptions options;
  options.batch_size = batch_size, options.img_size = 16, options.in_channels = 3;
  return options;
}

LoaderOptions training(std::int64_t batch_size) {
  LoaderOptions options = options_for(batch_size);
  options.shuffle = options.augment = true;
  return options;
}

std::vector<Batch> epoch_of(Loader& loader, std::int64_t epoch, std::int64_t first = 0) {
  std::vector<Batch> batches;
  loader.start_epoch(epoch, first);
  for (Batch batch; loader.next(batch);) batches.push_back(batch);
  return batches;
}

void check_equal(const Batch& a, const Batch& b) {
  CHECK(a.indices == b.indices);
  REQUIRE(a.keep.defined() == b.keep.defined());
  if (a.keep.defined()) CHECK(a.keep.to_vector<std::int64_t>() == b.keep.to_vector<std::int64_t>());
  CHECK(a.has_box.to_vector<std::int64_t>() == b.has_box.to_vector<std::int64_t>());
  CHECK(a.input().to_vector<float>() == b.input().to_vector<float>());
  CHECK(a.boxes.to_vector<float>() == b.boxes.to_vector<float>());
  CHECK(a.labels.to_vector<std::int64_t>() == b.labels.to_vector<std::int64_t>());
}

// An item's box, of an image of 16x16, as it is in the batch.
void check_box(const Batch& batch, std::int64_t slot, const Box& box) {
  const float* b = batch.boxes.data<float>() + 4 * slot;
  CHECK(b[0] == doctest::Approx((box.x0 + box.x1) / 32));
  CHECK(b[1] == doctest::Approx((box.y0 + box.y1) / 32));
  CHECK(b[2] == doctest::Approx(box.width() / 16));
  CHECK(b[3] == doctest::Approx(box.height() / 16));
}

TEST_CASE("in evaluation, items come in order and as they are") {
  const auto data = some_shapes();
  Loader loader(*data, options_for(8));
  const std::vector<Batch> batches = epoch_of(loader, 0);
  REQUIRE(batches.size() == 3);
  CHECK(loader.batches() == 3);
  CHECK(batches[0].images.shape() == Shape{8, 3, 16, 16});
  CHECK(batches[2].images.shape() == Shape{7, 3, 16, 16});
  CHECK(batches[2].size() == 7);
  std::int64_t item = 0;
  Image image;
  for (const Batch& batch : batches) {
    const Tensor input = batch.input();
    for (std::int64_t slot = 0; slot < batch.size(); ++slot, ++item) {
      CHECK(batch.indices[static_cast<std::size_t>(slot)] == item);
      CHECK(batch.labels.data<std::int64_t>()[slot] == data->label(item));
      data->get(item, image);
      const float* values = input.data<float>() + slot * 3 * 256;
      CHECK(std::equal(image.pixels.begin(), image.pixels.end(), values,
                       [&](std::uint8_t v, const float& x) {
                         const auto c = static_cast<std::size_t>((&x - values) / 256);
                         const Normalization& n = data->normalization();
                         return std::abs((v / 255.0f - n.mean[c]) / n.stddev[c] - x) < 1e-5f;
                       }));
      check_box(batch, slot, *data->box(item));
      CHECK(batch.has_box.data<std::int64_t>()[slot] == 1);
    }
  }
}

TEST_CASE("an epoch holds every item once, in an order of its own") {
  const auto data = some_shapes();
  Loader loader(*data, training(5));
  std::vector<std::vector<std::int64_t>> orders;
  for (const std::int64_t epoch : {0, 1}) {
    std::vector<std::int64_t> order;
    for (const Batch& batch : epoch_of(loader, epoch))
      order.insert(order.end(), batch.indices.begin(), batch.indices.end());
    CHECK(order.size() == 23);
    CHECK(std::set<std::int64_t>(order.begin(), order.end()).size() == 23);
    orders.push_back(order);
  }
  CHECK(orders[0] != orders[1]);
}

TEST_CASE("any epoch entered at any batch gives the same bits") {
  const auto data = some_shapes();
  Loader loader(*data, training(4));
  const std::vector<Batch> whole = epoch_of(loader, 3);
  REQUIRE(whole.size() == 6);
  epoch_of(loader, 4);
  for (const std::int64_t first : {0, 2, 5, 6}) {
    Loader other(*data, training(4));
    const std::vector<Batch> rest = epoch_of(other, 3, first);
    REQUIRE(rest.size() == static_cast<std::size_t>(6 - first));
    for (std::size_t i = 0; i < rest.size(); ++i)
      check_equal(rest[i], whole[static_cast<std::size_t>(first) + i]);
  }
  LoaderOptions options = training(4);
  options.seed = 2;
  Loader other(*data, options);
  CHECK(epoch_of(other, 3)[0].indices != whole[0].indices);
}

TEST_CASE("an item's augmentation does not depend on its place, but on the epoch") {
  const auto data = some_shapes();
  LoaderOptions ordered = training(23);
  ordered.shuffle = false;
  Loader shuffled(*data, training(23)), straight(*data, ordered);
  const Batch a = epoch_of(shuffled, 1)[0], b = epoch_of(straight, 1)[0];
  const Batch later = epoch_of(straight, 2)[0];
  const auto image = [](const Batch& batch, std::int64_t slot) {
    const auto* const first = batch.images.data<std::uint8_t>() + slot * 768;
    return std::vector<std::uint8_t>(first, first + 768);
  };
  int changed = 0;
  for (std::int64_t slot = 0; slot < 23; ++slot) {
    CHECK(image(a, slot) == image(b, a.indices[static_cast<std::size_t>(slot)]));
    changed += image(b, slot) != image(later, slot);
  }
  CHECK(changed > 15);
}

TEST_CASE("a last batch that isn't full can be left out") {
  const auto data = some_shapes();
  LoaderOptions options = options_for(8);
  options.drop_last = true;
  Loader loader(*data, options);
  CHECK(loader.batches() == 2);
  CHECK(epoch_of(loader, 0).size() == 2);
  options.batch_size = 24;
  contains(fault_of([&] { Loader(*data, options); }), "batch_size 24, but shapes has 23 images");
}

TEST_CASE("batches stay what they are while more are made") {
  const auto data = some_shapes();
  Loader loader(*data, training(2));
  loader.start_epoch(0);
  Batch first, next;
  loader.next(first);
  const std::vector<float> values = first.input().to_vector<float>();
  while (loader.next(next)) {
  }
  CHECK(first.input().to_vector<float>() == values);
}

TEST_CASE("images are fitted to the model") {
  const auto data = some_shapes();
  LoaderOptions options = options_for(23);
  options.img_size = 10, options.in_channels = 1;
  Loader loader(*data, options);
  const Batch batch = epoch_of(loader, 0)[0];
  CHECK(batch.images.shape() == Shape{23, 1, 10, 10});
  check_box(batch, 0, *data->box(0));
  options.in_channels = 2;
  contains(fault_of([&] { Loader(*data, options); }), "in_channels: 2, but the images have 3");
}

class Faulty final : public Dataset {
 public:
  Faulty() : Dataset({"faulty", "", {"a", "b"}, {{0.5f}, {0.5f}}}) {}
  std::int64_t size() const override { return 10; }
  void get(std::int64_t i, Image& image) const override {
    require(i != 5, "image 5", "damaged");
    image.reshape(1, 4, 4);
    std::fill(image.pixels.begin(), image.pixels.end(), 7);
  }
  std::int64_t label(std::int64_t) const override { return 0; }
};

TEST_CASE("a fault in the worker reaches the reader in its turn, and a new epoch works") {
  const Faulty data;
  LoaderOptions options = options_for(2);
  options.img_size = 4, options.in_channels = 1;
  Loader loader(data, options);
  for (int epoch = 0; epoch < 2; ++epoch) {
    loader.start_epoch(epoch);
    Batch batch;
    CHECK(loader.next(batch));
    CHECK(loader.next(batch));
    CHECK(fault_of([&] { loader.next(batch); }) == "image 5: damaged");
    CHECK(fault_of([&] { loader.next(batch); }) == "image 5: damaged");
  }
  loader.start_epoch(2, 3);
  Batch batch;
  CHECK(loader.next(batch));
  CHECK(batch.indices[0] == 6);
  CHECK(batch.has_box.data<std::int64_t>()[0] == 0);
}

TEST_CASE("a loader can be ended or sent to another epoch at any time") {
  const auto data = some_shapes(200);
  const auto expected = [&] {
    Loader loader(*data, training(4));
    loader.start_epoch(9);
    Batch batch;
    loader.next(batch);
    return batch;
  }();
  Loader loader(*data, training(4));
  for (int round = 0; round < 50; ++round) {
    Loader unused(*data, training(4));
    Loader left(*data, training(4));
    left.start_epoch(round);
    Batch batch;
    loader.start_epoch(round, round % 40);
    for (int i = 0; i < round % 7; ++i) CHECK(loader.next(batch));
    loader.start_epoch(9);
    CHECK(loader.next(batch));
    check_equal(batch, expected);
  }
}

TEST_CASE("what is asked of the system does not grow with the number of batches") {
  const auto data = some_shapes(64);
  Image image;
  for (std::int64_t i = 0; i < data->size(); ++i) data->get(i, image);
  const std::uint64_t before = allocator::stats().system_calls;
  Loader loader(*data, training(8));
  Batch batch;
  int batches = 0;
  for (int epoch = 0; epoch < 100; ++epoch)
    for (loader.start_epoch(epoch); loader.next(batch);) ++batches;
  CHECK(batches == 800);
  CHECK(allocator::stats().system_calls - before < 120);  // 6 batches alive, 12 blocks each
}

LoaderOptions selecting(std::int64_t batch_size, double prob = 0.5) {
  LoaderOptions options = training(batch_size);
  options.select.emplace();
  options.select->score.patch = 4;
  options.select->keep = 11;
  options.select->prob = prob;
  return options;
}

TEST_CASE("with selection any epoch entered at any batch gives the same bits") {
  const auto data = some_shapes(60);
  Loader loader(*data, selecting(4));
  const std::vector<Batch> whole = epoch_of(loader, 3);
  REQUIRE(whole.size() == 15);
  std::size_t filtered = 0;
  for (const Batch& batch : whole) {
    filtered += batch.keep.defined();
    CHECK((batch.selection.flops > 0) == batch.keep.defined());
    if (!batch.keep.defined()) continue;
    CHECK(batch.keep.shape() == Shape{4, 11});
    CHECK(batch.images.shape() == Shape{4, 11, 48});
  }
  CHECK(filtered > 2);
  CHECK(filtered < 13);
  for (const std::int64_t first : {0, 2, 9, 14}) {
    Loader other(*data, selecting(4));
    const std::vector<Batch> rest = epoch_of(other, 3, first);
    REQUIRE(rest.size() == static_cast<std::size_t>(15 - first));
    for (std::size_t i = 0; i < rest.size(); ++i)
      check_equal(rest[i], whole[static_cast<std::size_t>(first) + i]);
  }
}

TEST_CASE("a filter leaves order and augmentation of the data as they are") {
  const auto data = some_shapes(24);
  LoaderOptions zero = selecting(4, 1);
  zero.select->mode = PatchSelection::Mode::zero;
  Loader plain(*data, training(4)), half(*data, selecting(4)), all(*data, zero);
  const std::vector<Batch> a = epoch_of(plain, 2), b = epoch_of(half, 2), c = epoch_of(all, 2);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].indices == b[i].indices);
    if (!b[i].keep.defined()) check_equal(a[i], b[i]);
    CHECK(!c[i].keep.defined());
    const auto x = a[i].input().to_vector<float>(), z = c[i].input().to_vector<float>();
    REQUIRE(x.size() == z.size());
    std::size_t zeroed = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      zeroed += z[j] == 0;
      if (z[j] != 0) CHECK(z[j] == x[j]);
    }
    CHECK(zeroed == 4 * 5 * 48);
  }
}

TEST_CASE("keeping every patch leaves the image whole and unscored") {
  const auto data = some_shapes(8);
  LoaderOptions options = selecting(8, 1);
  options.select->keep = 16;
  Loader plain(*data, training(8)), loader(*data, options);
  const Batch whole = epoch_of(plain, 0)[0], kept = epoch_of(loader, 0)[0];
  CHECK(!kept.keep.defined());
  CHECK(kept.selection.flops == 0);
  check_equal(whole, kept);
}

TEST_CASE("dropping hands over the chosen patches of the same image") {
  const auto data = some_shapes(8);
  Loader plain(*data, training(8)), loader(*data, selecting(8, 1));
  const Batch whole = epoch_of(plain, 0)[0], cut = epoch_of(loader, 0)[0];
  REQUIRE(cut.keep.defined());
  CHECK(cut.input().to_vector<float>() == patchify(whole.input(), 4, cut.keep).to_vector<float>());
}

// Where scoring was seen.
class Seen final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    const std::lock_guard lock(mutex);
    const Cost cost = call.op.cost(call.in, call.out).total();
    calls += 1;
    flops += cost.flops();
    if (call.phase != Phase::data || call.scope->path != "patch_select" ||
        call.op.name() != "patch_scores" || std::this_thread::get_id() == reader)
      ++strange;
  }
  const std::thread::id reader = std::this_thread::get_id();
  std::mutex mutex;
  int calls = 0, strange = 0;
  std::uint64_t flops = 0;
};

TEST_CASE("scoring runs in the loader's thread and is seen as patch_select of phase data") {
  const auto data = some_shapes(24);
  Seen seen;
  std::uint64_t flops = 0;
  {
    const ObserverGuard guard(seen);
    Loader loader(*data, selecting(4, 1));
    for (const Batch& batch : epoch_of(loader, 0)) flops += batch.selection.flops;
  }
  CHECK(seen.calls == 24);
  CHECK(seen.strange == 0);
  CHECK(seen.flops == flops);
  CHECK(flops == 24 * (16 * 16 * 6 + 16 * 256));  // luminance and histogram, then bins
}

TEST_CASE("observers come and go while a loader works") {
  const auto data = some_shapes(400);
  Loader loader(*data, selecting(4, 1));
  loader.start_epoch(0);
  Batch batch;
  int seen = 0;
  for (int round = 0; loader.next(batch); ++round) {
    auto observer = std::make_unique<Seen>();
    {
      const ObserverGuard guard(*observer);
      if (round % 2 == 0) std::this_thread::yield();
    }
    seen += observer->calls;  // its guard is gone: no thread is inside it
    observer.reset();
  }
  CHECK(seen <= 400);
}

// Notes when ops of phase data run.
class OpTimes final : public Observer {
 public:
  void op_begin(const OpCall&) override { start_ = now(); }
  void op_end(const OpCall&) override { spans.emplace_back(start_, now()); }
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  static std::int64_t now() { return backend(Device::cpu).timestamp_ns(); }

 private:
  std::int64_t start_ = 0;
};

TEST_CASE("a loader tells what it works on, one stretch after the other and ops left out") {
  const auto data = some_shapes();
  for (const bool select : {false, true}) {
    OpTimes ops;
    const ObserverGuard guard(ops);
    std::vector<std::pair<std::int64_t, std::int64_t>> told;
    LoaderOptions options = select ? selecting(8, 1) : training(8);
    options.on_work = [&](std::int64_t start, std::int64_t end) { told.emplace_back(start, end); };
    {
      Loader loader(*data, options);
      epoch_of(loader, 0);
    }
    REQUIRE(told.size() >= (select ? 23u : 3u));
    CHECK(ops.spans.size() == (select ? 23u : 0u));
    for (std::size_t i = 0; i < told.size(); ++i) {
      CHECK(told[i].first <= told[i].second);
      if (i > 0) CHECK(told[i - 1].second <= told[i].first);
    }
    for (const auto& op : ops.spans)
      for (const auto& span : told) CHECK((span.second <= op.first || op.second <= span.first));
  }
}

LoaderOptions balanced(std::int64_t classes, std::int64_t images) {
  LoaderOptions options = training(1);
  options.balance = ClassBalance{classes, images};
  return options;
}

LoaderOptions two_views(std::int64_t batch_size) {
  LoaderOptions options = training(batch_size);
  options.views = 2;
  return options;
}

TEST_CASE("class-balanced batches hold R different images of each of P classes") {
  const auto data = some_shapes(23);  // 8, 8 and 7 of a class
  for (const auto& [classes, images] : {std::pair{3, 2}, {2, 3}, {3, 7}, {2, 8}}) {
    Loader loader(*data, balanced(classes, images));
    CHECK(loader.batches() == 23 / (classes * images));
    std::set<std::int64_t> seen_classes;
    for (std::int64_t epoch = 0; epoch < 5; ++epoch)
      for (const Batch& batch : epoch_of(loader, epoch)) {
        REQUIRE(batch.size() == classes * images);
        std::map<std::int64_t, std::set<std::int64_t>> items;
        for (std::int64_t i = 0; i < batch.size(); ++i) {
          const std::int64_t item = batch.indices[static_cast<std::size_t>(i)];
          CHECK(batch.labels.data<std::int64_t>()[i] == data->label(item));
          items[data->label(item)].insert(item);
          seen_classes.insert(data->label(item));
        }
        CHECK(std::ssize(items) == classes);
        for (const auto& [label, of_class] : items) CHECK(std::ssize(of_class) == images);
      }
    CHECK(std::ssize(seen_classes) == (images == 8 ? 2 : 3));  // one class has only 7
  }
}

TEST_CASE("a class-balanced epoch repeats no image before its class is used up") {
  const auto data = some_shapes(24);  // 8 of each class
  Loader loader(*data, balanced(3, 2));
  std::vector<std::set<std::int64_t>> epochs;
  std::vector<std::int64_t> orders[2];
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<std::int64_t> seen;
    for (const Batch& batch : epoch_of(loader, epoch)) {
      seen.insert(batch.indices.begin(), batch.indices.end());
      orders[epoch].insert(orders[epoch].end(), batch.indices.begin(), batch.indices.end());
    }
    CHECK(seen.size() == 24);
  }
  CHECK(orders[0] != orders[1]);
}

TEST_CASE("balanced and two-view epochs entered at any batch give the same bits") {
  const auto data = some_shapes(29);
  for (LoaderOptions options : {balanced(2, 2), two_views(4)}) {
    options.select = selecting(4).select;
    Loader whole_loader(*data, options);
    const std::vector<Batch> whole = epoch_of(whole_loader, 3);
    for (std::int64_t first = 0; first <= whole_loader.batches(); ++first) {
      Loader loader(*data, options);
      epoch_of(loader, first % 2);  // earlier epochs have no influence
      const std::vector<Batch> rest = epoch_of(loader, 3, first);
      REQUIRE(std::ssize(rest) == whole_loader.batches() - first);
      for (std::size_t i = 0; i < rest.size(); ++i)
        check_equal(rest[i], whole[static_cast<std::size_t>(first) + i]);
    }
  }
}

TEST_CASE("two views follow each other: the usual one, and one with draws of its own") {
  const auto data = some_shapes(23);
  LoaderOptions one = training(4), two = two_views(4);
  one.select = two.select = selecting(4, 1).select;
  Loader single(*data, one), both(*data, two);
  const std::vector<Batch> a = epoch_of(single, 1), b = epoch_of(both, 1);
  REQUIRE(a.size() == b.size());
  std::size_t other_pixels = 0, other_patches = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    REQUIRE(b[k].size() == 2 * a[k].size());
    const std::vector<float> x = a[k].input().to_vector<float>(),
                             y = b[k].input().to_vector<float>();
    const auto kept = b[k].keep.to_vector<std::int64_t>();
    const std::size_t n = x.size() / static_cast<std::size_t>(a[k].size());
    for (std::size_t i = 0; i < static_cast<std::size_t>(a[k].size()); ++i) {
      for (const std::size_t view : {0, 1}) {
        CHECK(b[k].indices[2 * i + view] == a[k].indices[i]);
        CHECK(b[k].labels.data<std::int64_t>()[2 * i + view] ==
              a[k].labels.data<std::int64_t>()[i]);
      }
      const auto at = [&](auto& values, std::size_t slot, std::size_t width) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(slot * width);
        return std::vector(begin, begin + static_cast<std::ptrdiff_t>(width));
      };
      CHECK(at(x, i, n) == at(y, 2 * i, n));
      other_pixels += at(x, i, n) != at(y, 2 * i + 1, n);
      const std::size_t k_kept = kept.size() / b[k].indices.size();
      other_patches += at(kept, 2 * i, k_kept) != at(kept, 2 * i + 1, k_kept);
    }
  }
  CHECK(other_pixels >= 22);
  CHECK(other_patches >= 20);
}

TEST_CASE("a filter leaves the order of balanced batches and of views as it is") {
  const auto data = some_shapes(24);
  for (LoaderOptions options : {balanced(3, 2), two_views(4)}) {
    Loader plain(*data, options);
    options.select = selecting(4).select;
    Loader filtered(*data, options);
    const std::vector<Batch> a = epoch_of(plain, 2), b = epoch_of(filtered, 2);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].indices == b[i].indices);
      if (!b[i].keep.defined()) check_equal(a[i], b[i]);
    }
  }
}

TEST_CASE("classes of a batch follow from its size, or the fault is named") {
  const auto data = some_shapes(23);
  const auto made = [&](std::int64_t batch_size, std::int64_t classes = 0) {
    const ClassBalance b = balance_classes(*data, batch_size, classes);
    return std::pair(b.classes, b.images);
  };
  CHECK(made(4) == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(made(20) == std::pair<std::int64_t, std::int64_t>(3, 6));
  CHECK(made(17, 2) == std::pair<std::int64_t, std::int64_t>(2, 8));
  contains(fault_of([&] { made(3); }), "a batch of 3, expected room for 2 classes of 2 images");
  contains(fault_of([&] { made(5, 3); }), "3 classes in a batch of 5, expected 2 images of each");
  contains(fault_of([&] { made(24); }),
           "3 classes of 8 images each in a batch of 24, but shapes has 2 such classes");
  contains(fault_of([&] { balance_classes(*some_shapes(3), 8, 0); }),
           "shapes has 0 classes of 2 images or more, expected 2");
  contains(fault_of([&] { Loader(*data, balanced(3, 8)); }), "shapes has 2 of so many");
}

TEST_CASE("any number of workers gives the same bits") {
  const auto data = some_shapes(61);
  LoaderOptions zero = selecting(8);
  zero.select->mode = PatchSelection::Mode::zero;
  for (LoaderOptions options :
       {options_for(8), training(8), selecting(8), zero, balanced(3, 2), two_views(5)}) {
    options.workers = 1;
    Loader single(*data, options);
    const std::vector<Batch> expected = epoch_of(single, 2, 1);
    for (const int workers : {2, 3, 7}) {
      options.workers = workers;
      Loader several(*data, options);
      const std::vector<Batch> batches = epoch_of(several, 2, 1);
      REQUIRE(batches.size() == expected.size());
      for (std::size_t i = 0; i < batches.size(); ++i) {
        check_equal(batches[i], expected[i]);
        CHECK(batches[i].selection.flops == expected[i].selection.flops);
        CHECK(batches[i].selection.unscored == expected[i].selection.unscored);
      }
    }
  }
}

// Items wait until so many threads have asked for one.
class Meeting final : public Dataset {
 public:
  explicit Meeting(std::size_t threads)
      : Dataset({"meeting", "", {"a", "b"}, {{0.5f}, {0.5f}}}), threads_(threads) {}
  std::int64_t size() const override { return 64; }
  void get(std::int64_t i, Image& image) const override {
    {
      std::unique_lock lock(mutex_);
      seen_.insert(std::this_thread::get_id());
      all_.notify_all();
      const auto met = [&] { return seen_.size() >= threads_; };
      require(all_.wait_for(lock, std::chrono::minutes(1), met), "meeting", "too few");
    }
    image.reshape(1, 4, 4);
    std::fill(image.pixels.begin(), image.pixels.end(), static_cast<std::uint8_t>(i));
  }
  std::int64_t label(std::int64_t) const override { return 0; }

 private:
  const std::size_t threads_;
  mutable std::mutex mutex_;
  mutable std::condition_variable all_;
  mutable std::set<std::thread::id> seen_;
};

TEST_CASE("workers share a batch, and several batches") {
  LoaderOptions options = options_for(64);
  options.img_size = 4, options.in_channels = 1, options.workers = 3;
  for (const std::int64_t batch_size : {64, 4, 1}) {
    const Meeting data(3);
    options.batch_size = batch_size;
    Loader loader(data, options);
    std::vector<float> values;
    for (const Batch& batch : epoch_of(loader, 0))
      for (std::int64_t i = 0; i < batch.size(); ++i)
        values.push_back(batch.images.data<std::uint8_t>()[16 * i]);
    REQUIRE(values.size() == 64);
    for (std::size_t i = 0; i < 64; ++i) CHECK(values[i] == static_cast<float>(i));
  }
}

TEST_CASE("of several faults the first in the batch is told, with any number of workers") {
  class Faults final : public Dataset {
   public:
    Faults() : Dataset({"faults", "", {"a", "b"}, {{0.5f}, {0.5f}}}) {}
    std::int64_t size() const override { return 64; }
    void get(std::int64_t i, Image& image) const override {
      require(i < 21, fmt::format("image {}", i), "damaged");
      image.reshape(1, 4, 4);
      std::fill(image.pixels.begin(), image.pixels.end(), 7);
    }
    std::int64_t label(std::int64_t) const override { return 0; }
  };
  const Faults data;
  LoaderOptions options = options_for(16);
  options.img_size = 4, options.in_channels = 1;
  for (const int workers : {1, 2, 5}) {
    options.workers = workers;
    Loader loader(data, options);
    for (int epoch = 0; epoch < 20; ++epoch) {
      loader.start_epoch(epoch);
      Batch batch;
      CHECK(loader.next(batch));
      CHECK(fault_of([&] { loader.next(batch); }) == "image 21: damaged");
      CHECK(fault_of([&] { loader.next(batch); }) == "image 21: damaged");
    }
  }
}

TEST_CASE("several workers can be ended or sent to another epoch at any time") {
  const auto data = some_shapes(200);
  LoaderOptions options = selecting(4);
  Loader first(*data, options);
  const Batch expected = epoch_of(first, 9)[0];
  options.workers = 3;
  Loader loader(*data, options);
  for (int round = 0; round < 30; ++round) {
    Loader left(*data, options);
    left.start_epoch(round);
    Batch batch;
    loader.start_epoch(round, round % 40);
    for (int i = 0; i < round % 7; ++i) CHECK(loader.next(batch));
    loader.start_epoch(9);
    CHECK(loader.next(batch));
    check_equal(batch, expected);
  }
}

TEST_CASE("each worker tells its own work, ops left out") {
  const auto data = some_shapes(64);
  std::mutex mutex;
  std::map<std::thread::id, std::vector<std::pair<std::int64_t, std::int64_t>>> told;
  LoaderOptions options = selecting(16, 1);
  options.workers = 3;
  options.on_work = [&](std::int64_t start, std::int64_t end) {
    const std::lock_guard lock(mutex);
    told[std::this_thread::get_id()].emplace_back(start, end);
  };
  {
    Loader loader(*data, options);
    for (int epoch = 0; epoch < 3; ++epoch) epoch_of(loader, epoch);
  }
  std::size_t stretches = 0;
  for (const auto& [thread, spans] : told) {
    stretches += spans.size();
    for (std::size_t i = 0; i < spans.size(); ++i) {
      CHECK(spans[i].first <= spans[i].second);
      if (i > 0) CHECK(spans[i - 1].second <= spans[i].first);
    }
  }
  CHECK(stretches >= 3 * 64);  // scoring cuts the work on an image in two
}

TEST_CASE("image files have as many workers as threads, images in memory one") {
  class Files final : public Dataset {
   public:
    Files()
        : Dataset([] {
            DatasetInfo info;
            info.files = true;
            return info;
          }()) {}
    std::int64_t size() const override { return 1; }
    void get(std::int64_t, Image&) const override {}
    std::int64_t label(std::int64_t) const override { return 0; }
  };
  CHECK(workers_for(*some_shapes()) == 1);
  for (const int threads : {1, 3, 100}) {
    const cpu::ThreadLimit limit(threads);
    CHECK(workers_for(Files()) == std::min(cpu::threads(), 16));
  }
}

TEST_CASE("wrong use of a loader is an error") {
  const auto data = some_shapes();
  Loader loader(*data, options_for(8));
  Batch batch;
  contains(fault_of([&] { loader.next(batch); }), "next before start_epoch");
  contains(fault_of([&] { loader.start_epoch(-1); }), "epoch -1");
  contains(fault_of([&] { loader.start_epoch(0, 4); }), "batch 4 of epoch 0, which has 3");
  contains(fault_of([&] { Loader(*data, options_for(0)); }), "batch_size 0");
  LoaderOptions blind = options_for(8);
  blind.views = 0;
  contains(fault_of([&] { Loader(*data, blind); }), "0 views");
  LoaderOptions negative = options_for(8);
  negative.workers = -1;
  contains(fault_of([&] { Loader(*data, negative); }), "-1 workers, expected 0 or more");
  LoaderOptions options = options_for(8);
  options.select = selecting(8).select;
  options.select->keep = 17;
  CHECK(fault_of([&] { Loader(*data, options); }) ==
        "select: expected to keep 1 to 16 patches, got 17");
  options.img_size = 0;
  contains(fault_of([&] { Loader(*data, options); }), "0 pixels a side");
}

}  // namespace
}  // namespace hg::testing
