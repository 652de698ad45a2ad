#include "data/loader.h"

#include <algorithm>
#include <numeric>

#include "tensor/base/clock.h"
#include "tensor/base/error.h"
#include "tensor/cpu/parallel.h"
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
  require(options.workers >= 0, "loader", "{} workers, expected 0 or more", options.workers);
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

// Two at least where several threads work, so that none waits for the batch of the others.
std::size_t batches_ahead(const LoaderOptions& o, int workers) {
  const std::size_t side = static_cast<std::size_t>(o.img_size);
  const std::size_t pixels = static_cast<std::size_t>(items_of_batch(o) * o.views) *
                             static_cast<std::size_t>(o.in_channels) * side * side;
  const std::size_t bytes = pixels * (o.select ? sizeof(float) : 1);
  return std::clamp(kAheadBytes / bytes, std::size_t{workers > 1 ? 2u : 1u}, kMostAhead);
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

int workers_for(const Dataset& dataset) {
  constexpr int kMost = 16;
  return dataset.info().files ? std::clamp(cpu::threads(), 1, kMost) : 1;
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      options_(checked(dataset, options)),
      worker_count_(options.workers > 0 ? options.workers : workers_for(dataset)),
      normalize_(options.normalization.value_or(dataset.normalization())
                     .for_channels(options.in_channels)),
      norm_(normalize_.as_tensor()),
      batch_items_(items_of_batch(options)),
      batches_(batch_count(dataset, options)),
      ahead_(batches_ahead(options, worker_count_)),
      balanced_(options.balance
                    ? std::optional<BalancedOrder>(std::in_place, dataset, *options.balance)
                    : std::nullopt) {
  try {
    while (std::ssize(threads_) < worker_count_) add_worker();
  } catch (...) {  // no more threads to be had
    end_threads();
    throw;
  }
}

Loader::~Loader() { end_threads(); }

void Loader::add_worker() {
  const Shape item{1, options_.in_channels, options_.img_size, options_.img_size};
  Worker& worker = workers_.emplace_back(Fit(options_.img_size, options_.in_channels), Image{},
                                         Tensor::empty(item, DType::u8));
  if (options_.select) worker.selector.emplace(*options_.select, normalize_);
  if (options_.select && options_.on_work)
    worker.selector->on_op([this, &worker](bool begins) {
      tell_work(worker, begins ? Telling::rest : Telling::begin);
    });
  threads_.emplace_back([this, &worker] { work(worker); });
}

void Loader::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  wake_workers_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_batch) {
  require(epoch >= 0, "loader", "epoch {}, expected 0 or more", epoch);
  require(first_batch >= 0 && first_batch <= batches_, "loader",
          "batch {} of epoch {}, which has {}", first_batch, epoch, batches_);
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    epoch_ = epoch;
    to_make_ = to_take_ = first_batch;
    queue_.clear();
    failed_ = false;
  }
  wake_workers_.notify_all();
}

bool Loader::next(Batch& batch) {
  std::unique_lock lock(mutex_);
  require(epoch_ >= 0, "loader", "next before start_epoch");
  if (to_take_ == batches_) return false;
  wake_reader_.wait(lock, [&] { return !queue_.empty() && queue_.front()->done; });
  if (queue_.front()->failure) std::rethrow_exception(queue_.front()->failure);
  const std::shared_ptr<Making> made = std::move(queue_.front());
  queue_.pop_front();
  ++to_take_;
  lock.unlock();
  wake_workers_.notify_all();
  made->sent.arrive();
  batch = std::move(made->batch);
  return true;
}

void Loader::work(Worker& worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_workers_.wait(lock, [&] { return stop_ || has_work(); });
    if (stop_) return;
    tell_work(worker, Telling::begin);
    const Share share = give_out();
    lock.unlock();
    make_share(worker, share);
    lock.lock();
    if (!completes(share, worker)) continue;
    lock.unlock();
    send(*share.of);
    lock.lock();
    share.of->done = true;
    wake_reader_.notify_one();
  }
}

bool Loader::has_work() const {
  if (epoch_ < 0 || failed_) return false;
  const bool unfinished = !queue_.empty() && queue_.back()->given_out < queue_.back()->slots;
  return unfinished || (queue_.size() < ahead_ && to_make_ < batches_);
}

// Of the last batch, or of a new one. Several threads share a batch in small parts, so that they
// finish it together.
Loader::Share Loader::give_out() {
  constexpr std::int64_t kSharesOfThread = 4, kLargestShare = 16;
  if (queue_.empty() || queue_.back()->given_out == queue_.back()->slots) begin_batch();
  const std::shared_ptr<Making>& last = queue_.back();
  const std::int64_t size = worker_count_ == 1
                                ? last->slots
                                : std::clamp(last->slots / (kSharesOfThread * worker_count_),
                                             std::int64_t{1}, kLargestShare);
  const std::int64_t begin = last->given_out;
  last->given_out = std::min(last->slots, begin + size);
  ++last->shares_out;
  return {last, begin, last->given_out};
}

void Loader::begin_batch() {
  const auto making = std::allocate_shared<Making>(CachedAllocator<Making>());
  making->generation = generation_;
  queue_.push_back(making);
  try {
    prepare(epoch_, to_make_++, *making);
  } catch (...) {
    fail_at(0, *making);
  }
}

// Ends early if nobody waits for the batch any more.
void Loader::make_share(Worker& worker, const Share& share) {
  if (worker.selector) worker.selector->take_tally();  // of a share that was given up
  std::int64_t slot = share.begin;
  try {
    for (; slot < share.end && generation_ == share.of->generation; ++slot) {
      make_item(worker, slot, *share.of);
      tell_work(worker, slot + 1 == share.end ? Telling::rest : Telling::now_and_then);
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    fail_at(slot, *share.of);
  }
}

// The first slot that fails speaks for the batch: those before it have all been given out.
void Loader::fail_at(std::int64_t slot, Making& making) {
  if (making.generation == generation_) failed_ = true;
  if (making.failure && making.faulty_slot < slot) return;
  making.faulty_slot = slot;
  making.failure = std::current_exception();
}

// Whether it was the batch's last share to be made.
bool Loader::completes(const Share& share, Worker& worker) {
  Making& making = *share.of;
  if (worker.selector) {
    const PatchSelector::Tally tally = worker.selector->take_tally();
    making.batch.selection.unscored += tally.unscored;
    making.batch.selection.flops += tally.flops;
  }
  --making.shares_out;
  return making.shares_out == 0 && (making.given_out == making.slots || making.failure);
}

void Loader::send(Making& making) {
  if (making.failure || making.generation != generation_) return;
  try {
    for (Tensor* t : making.batch.tensors()) *t = making.sent.send(*t, options_.device);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    fail_at(0, making);
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

void Loader::prepare(std::int64_t epoch, std::int64_t index, Making& making) {
  order_items(epoch);
  const std::int64_t first = index * batch_items_;
  const std::int64_t items = std::min(batch_items_, std::ssize(order_) - first);
  const std::int64_t n = items * options_.views;
  const Draws draws = draws_of(epoch, index, n);
  Batch& batch = making.batch;
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
  batch.epoch = epoch;
  batch.step = epoch * batches_ + index;
  batch.labels = Tensor::empty({n}, DType::i64);
  batch.boxes = Tensor::zeros({n, 4});
  batch.has_box = Tensor::zeros({n}, DType::i64);
  making.draws = draws;
  making.slots = n;
  making.needed = options_.needed ? options_.needed(batch) : std::pair(std::int64_t{0}, n);
}

Loader::Draws Loader::draws_of(std::int64_t epoch, std::int64_t index, std::int64_t images) const {
  Draws draws;
  draws.augment = epoch_key(options_.seed, "data.augment", epoch);
  if (!options_.select) return draws;
  const PatchSelection& selection = *options_.select;
  const std::int64_t side = options_.img_size / selection.score.patch;
  const std::int64_t keep = selection.kept_in(epoch);
  if (keep < side * side && filters_batch(selection, options_.seed, epoch, index)) {
    draws.select = selection_key(options_.seed, epoch);
    draws.keep = Tensor::empty({images, keep}, DType::i64);
  }
  return draws;
}

void Loader::tell_work(Worker& worker, Telling what) const {
  if (!options_.on_work) return;
  const std::int64_t now = now_ns();
  if (what == Telling::now_and_then && now - worker.told_ns < kTellNs) return;
  if (what != Telling::begin) options_.on_work(worker.told_ns, now);
  worker.told_ns = now;
}

std::int64_t Loader::draw_number(std::int64_t slot, const Batch& batch) const {
  return slot % options_.views * dataset_.size() + batch.indices[static_cast<std::size_t>(slot)];
}

Augmentation Loader::augmentation(std::uint64_t key, std::int64_t number) const {
  if (!options_.augment) return {};
  return draw_augmentation(key, number, options_.img_size, dataset_.info().mirrors);
}

void Loader::make_item(Worker& worker, std::int64_t slot, Making& making) const {
  Batch& batch = making.batch;
  const std::int64_t item = batch.indices[static_cast<std::size_t>(slot)];
  const Augmentation how = augmentation(making.draws.augment, draw_number(slot, batch));
  const bool needed = making.needed.first <= slot && slot < making.needed.second;
  const Box* const box = dataset_.box(item);
  if (needed || box) dataset_.get(item, worker.image);
  if (needed) {
    augment(worker.fit(worker.image), how, worker.pixels.data<std::uint8_t>());
    write_pixels(worker, slot, making);
  }
  batch.labels.data<std::int64_t>()[slot] = dataset_.label(item);
  if (box) {
    const UnitBox b =
        place_box(*box, worker.image.width, worker.image.height, options_.img_size, how);
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

void Loader::write_pixels(Worker& worker, std::int64_t slot, Making& making) const {
  const Batch& batch = making.batch;
  const std::int64_t size = batch.images.numel() / batch.size();
  if (!making.draws.keep.defined()) {
    std::copy_n(worker.pixels.data<std::uint8_t>(), size,
                batch.images.data<std::uint8_t>() + slot * size);
    return;
  }
  float* const out = batch.images.data<float>() + slot * size;
  const std::int64_t k = making.draws.keep.dim(1);
  const std::span<std::int64_t> keep(making.draws.keep.data<std::int64_t>() + slot * k,
                                     static_cast<std::size_t>(k));
  (*worker.selector)(worker.pixels, making.draws.select, draw_number(slot, batch), keep, out);
}

}  // namespace hg
