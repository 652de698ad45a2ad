#include "data/loader.h"

#include <algorithm>
#include <numeric>

#include "tensor/base/clock.h"
#include "tensor/base/error.h"
#include "tensor/observer.h"
#include "tensor/ops/normalize_pixels.h"
#include "tensor/random.h"

namespace hg {
namespace {

constexpr std::size_t kAheadBytes = std::size_t{64} << 20;
constexpr std::size_t kMostAhead = 4;
constexpr std::int64_t kTellNs = 5'000'000;

LoaderOptions checked(const Dataset& dataset, const LoaderOptions& options) {
  require(options.batch_size > 0, "loader", "batch_size {}, expected 1 or more",
          options.batch_size);
  require(options.img_size > 0 && options.in_channels > 0, "loader",
          "images of {} channels and {} pixels a side, expected 1 or more of each",
          options.in_channels, options.img_size);
  require(options.views > 0, "loader", "{} views, expected 1 or more", options.views);
  require(dataset.size() > 0, "loader", "{} has no images", dataset.info().name);
  require(!options.drop_last || options.batch_size <= dataset.size(), "loader",
          "batch_size {}, but {} has {} images", options.batch_size, dataset.info().name,
          dataset.size());
  if (options.select) check_selection(*options.select, options.img_size, options.img_size);
  return options;
}

std::int64_t items_of_batch(const LoaderOptions& options) {
  return options.balance ? options.balance->batch() : options.batch_size;
}

std::int64_t batch_count(const Dataset& dataset, const LoaderOptions& options) {
  const std::int64_t items = items_of_batch(options);
  const std::int64_t spare = options.drop_last || options.balance ? 0 : items - 1;
  return (dataset.size() + spare) / items;
}

std::size_t batches_ahead(const LoaderOptions& o) {
  const std::size_t side = static_cast<std::size_t>(o.img_size);
  const std::size_t pixels = static_cast<std::size_t>(items_of_batch(o) * o.views) *
                             static_cast<std::size_t>(o.in_channels) * side * side;
  return std::clamp(kAheadBytes / (pixels * sizeof(float)), std::size_t{1}, kMostAhead);
}

std::uint64_t epoch_key(std::uint64_t seed, const char* name, std::int64_t epoch) {
  return RandomStream(seed, fmt::format("{}.{}", name, epoch)).key();
}

}  // namespace

Tensor Batch::input() const {
  if (!norm.defined()) return images;
  const Scope scope("input");
  return normalize_pixels(images, norm);
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      options_(checked(dataset, options)),
      normalize_(options.normalization.value_or(dataset.normalization())
                     .for_channels(options.in_channels)),
      norm_(normalize_.as_tensor()),
      batch_items_(items_of_batch(options)),
      batches_(batch_count(dataset, options)),
      ahead_(batches_ahead(options)),
      fit_(options.img_size, options.in_channels),
      pixels_(
          Tensor::empty({1, options.in_channels, options.img_size, options.img_size}, DType::u8)),
      selector_(options.select
                    ? std::optional<PatchSelector>(std::in_place, *options.select, normalize_)
                    : std::nullopt),
      balanced_(options.balance
                    ? std::optional<BalancedOrder>(std::in_place, dataset, *options.balance)
                    : std::nullopt),
      worker_([this] { work(); }) {
  if (selector_ && options_.on_work)
    selector_->on_op([this](bool begins) { tell_work(begins ? Telling::rest : Telling::begin); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  wake_worker_.notify_one();
  worker_.join();
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  require(epoch >= 0, "loader", "epoch {}, expected 0 or more", epoch);
  require(first_batch >= 0 && first_batch <= batches_, "loader",
          "batch {} of epoch {}, which has {}", first_batch, epoch, batches_);
  {
    const std::lock_guard lock(mutex_);
    epoch_ = {epoch, ++generation_};
    to_make_ = to_take_ = first_batch;
    ready_.clear();
    failure_ = nullptr;
  }
  wake_worker_.notify_one();
}

bool Loader::next(Batch& batch) {
  std::unique_lock lock(mutex_);
  require(epoch_.number >= 0, "loader", "next before start_epoch");
  if (to_take_ == batches_) return false;
  wake_reader_.wait(lock, [&] { return !ready_.empty() || failure_; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Made made = std::move(ready_.front());
  ready_.pop_front();
  ++to_take_;
  lock.unlock();
  wake_worker_.notify_one();
  made.sent.arrive();
  batch = std::move(made.batch);
  return true;
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_worker_.wait(lock, [&] {
      const bool open = epoch_.number >= 0 && !failure_ && to_make_ < batches_;
      return stop_ || (open && ready_.size() < ahead_);
    });
    if (stop_) return;
    const Epoch epoch = epoch_;
    const std::int64_t index = to_make_;
    lock.unlock();
    try {
      Made next;
      const bool made = make_batch(epoch, index, next.batch);
      if (made) next.sent = send(next.batch);
      lock.lock();
      if (epoch.generation != generation_) continue;  // nobody waits for this one any more
      ready_.push_back(std::move(next));
      ++to_make_;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      if (epoch.generation != generation_) continue;
      failure_ = std::current_exception();
    }
    wake_reader_.notify_one();
  }
}

void Loader::order_items(std::int64_t epoch) {
  if (ordered_epoch_ == epoch) return;
  ordered_epoch_ = epoch;
  if (balanced_) {
    order_.resize(static_cast<std::size_t>(batches_ * batch_items_));
    return balanced_->fill(options_.seed, epoch, order_);
  }
  order_.resize(static_cast<std::size_t>(dataset_.size()));
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (!options_.shuffle) return;
  RandomStream stream(options_.seed, fmt::format("data.shuffle.{}", epoch));
  shuffle(order_, stream);
}

bool Loader::make_batch(const Epoch& epoch, std::int64_t index, Batch& batch) {
  tell_work(Telling::begin);
  order_items(epoch.number);
  const std::int64_t first = index * batch_items_;
  const std::int64_t items = std::min(batch_items_, std::ssize(order_) - first);
  const std::int64_t n = items * options_.views;
  const Draws draws = draws_of(epoch.number, index, n);
  batch.indices.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = first; i < first + items; ++i)
    batch.indices.insert(batch.indices.end(), static_cast<std::size_t>(options_.views),
                         order_[static_cast<std::size_t>(i)]);
  batch.images = empty_images(n, draws);
  if (!draws.keep.defined())
    batch.norm = norm_;
  else if (options_.select->mode == PatchSelection::Mode::drop)
    batch.keep = draws.keep;
  batch.lanes = options_.lanes;
  batch.seed = options_.seed;
  batch.epoch = epoch.number;
  batch.step = epoch.number * batches_ + index;
  batch.labels = Tensor::empty({n}, DType::i64);
  batch.boxes = Tensor::zeros({n, 4});
  batch.has_box = Tensor::zeros({n}, DType::i64);
  if (selector_) selector_->take_tally();  // of a batch that was given up
  const auto [needed, enough] =
      options_.needed ? options_.needed(batch) : std::pair(std::int64_t{0}, n);
  for (std::int64_t slot = 0; slot < n; ++slot) {
    if (generation_ != epoch.generation) return false;
    make_item(slot, draws, needed <= slot && slot < enough, batch);
    tell_work(slot + 1 == n ? Telling::rest : Telling::now_and_then);
  }
  if (selector_) batch.selection = selector_->take_tally();
  return true;
}

SentAhead Loader::send(Batch& batch) const {
  SentAhead sent;
  for (Tensor* t : batch.tensors()) *t = sent.send(*t, options_.device);
  return sent;
}

Loader::Draws Loader::draws_of(std::int64_t epoch, std::int64_t index, std::int64_t images) const {
  Draws draws;
  draws.augment = epoch_key(options_.seed, "data.augment", epoch);
  if (!selector_) return draws;
  const PatchSelection& selection = selector_->selection();
  const std::int64_t side = options_.img_size / selection.score.patch;
  const std::int64_t keep = selection.kept_in(epoch);
  if (keep < side * side && filters_batch(selection, options_.seed, epoch, index)) {
    draws.select = selection_key(options_.seed, epoch);
    draws.keep = Tensor::empty({images, keep}, DType::i64);
  }
  return draws;
}

void Loader::tell_work(Telling what) {
  if (!options_.on_work) return;
  const std::int64_t now = now_ns();
  if (what == Telling::now_and_then && now - told_ns_ < kTellNs) return;
  if (what != Telling::begin) options_.on_work(told_ns_, now);
  told_ns_ = now;
}

std::int64_t Loader::draw_number(std::int64_t slot, const Batch& batch) const {
  return slot % options_.views * dataset_.size() + batch.indices[static_cast<std::size_t>(slot)];
}

Augmentation Loader::augmentation(std::uint64_t key, std::int64_t number) const {
  if (!options_.augment) return {};
  return draw_augmentation(key, number, options_.img_size, dataset_.info().mirrors);
}

void Loader::make_item(std::int64_t slot, const Draws& draws, bool needed, Batch& batch) {
  const std::int64_t item = batch.indices[static_cast<std::size_t>(slot)];
  const Augmentation how = augmentation(draws.augment, draw_number(slot, batch));
  const Box* const box = dataset_.box(item);
  if (needed || box) dataset_.get(item, image_);
  if (needed) {
    augment(fit_(image_), how, pixels_.data<std::uint8_t>());
    write_pixels(slot, draws, batch);
  }
  batch.labels.data<std::int64_t>()[slot] = dataset_.label(item);
  if (box) {
    const UnitBox b = place_box(*box, image_.width, image_.height, options_.img_size, how);
    const float placed[4] = {(b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2, b.x1 - b.x0, b.y1 - b.y0};
    std::copy_n(placed, 4, batch.boxes.data<float>() + 4 * slot);
    batch.has_box.data<std::int64_t>()[slot] = b.valid;
  }
}

// Bytes where no patches are chosen, else what the selector makes.
Tensor Loader::empty_images(std::int64_t n, const Draws& draws) const {
  const Shape whole{n, options_.in_channels, options_.img_size, options_.img_size};
  if (!draws.keep.defined()) return Tensor::empty(whole, DType::u8);
  if (options_.select->mode == PatchSelection::Mode::zero) return Tensor::empty(whole);
  const std::int64_t patch = options_.select->score.patch;
  return Tensor::empty({n, draws.keep.dim(1), options_.in_channels * patch * patch});
}

void Loader::write_pixels(std::int64_t slot, const Draws& draws, Batch& batch) {
  const std::int64_t size = batch.images.numel() / batch.size();
  if (!draws.keep.defined()) {
    std::copy_n(pixels_.data<std::uint8_t>(), size,
                batch.images.data<std::uint8_t>() + slot * size);
    return;
  }
  float* const out = batch.images.data<float>() + slot * size;
  const std::int64_t k = draws.keep.dim(1);
  const std::span<std::int64_t> keep(draws.keep.data<std::int64_t>() + slot * k,
                                     static_cast<std::size_t>(k));
  (*selector_)(pixels_, draws.select, draw_number(slot, batch), keep, out);
}

}  // namespace hg
