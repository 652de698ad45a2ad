// Batches of a data set, made ahead of time on a thread of their own. Whatever is random depends on
// seed, epoch, item and view alone, so an epoch that is entered at any batch, at any speed, gives
// the same bits.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "data/class_balance.h"
#include "data/dataset.h"
#include "data/patch_select.h"
#include "tensor/transfer.h"

namespace hg {

struct Batch;

struct LoaderOptions {
  std::int64_t batch_size = 64;
  int img_size = 0, in_channels = 0;
  bool augment = false;    // shift by up to img_size/8 each way; mirror, if the data set allows
  bool shuffle = false;    // a new order each epoch
  bool drop_last = false;  // leave out a last batch that isn't full
  // Batches of P classes x R images in place of batch_size and shuffle; the rest of an epoch that
  // fills no batch is left out.
  std::optional<ClassBalance> balance;
  std::int64_t views = 1;  // of each item, one after the other, each with draws of its own
  std::uint64_t seed = 1;
  std::int64_t lanes = 0;                      // of a batch
  std::optional<Normalization> normalization;  // the data set's own unless given
  std::optional<PatchSelection> select;        // none: every batch has all patches
  Device device = Device::cpu;                 // where batches are wanted
  // Which images [first, second) of a batch are needed here; none: all. The others have labels and
  // boxes, but neither pixels nor patches. Asked on the loader's thread, of shapes alone.
  std::function<std::pair<std::int64_t, std::int64_t>(const Batch&)> needed;
  // Called on the loader's thread for each stretch of its work outside ops, at most some
  // milliseconds long, on the clock of now_ns().
  std::function<void(std::int64_t start_ns, std::int64_t end_ns)> on_work;
};

struct Batch {
  // [B,C,H,W] u8 with norm; f32 and normalised, if there is no norm; or patches [B, k, C p p] f32
  Tensor images;
  Tensor norm;                         // [2,C] f32: the input is norm[0] images + norm[1]
  Tensor keep;                         // [B,k] i64, the patches that were not dropped; none: all
  Tensor labels;                       // [B] i64
  Tensor boxes;                        // [B,4] f32: cx cy w h in 0..1; zeros where there is none
  Tensor has_box;                      // [B] i64, 1: there is a box and enough of it is in view
  CachedVector<std::int64_t> indices;  // [B] in the data set, once for each view
  PatchSelector::Tally selection;      // what choosing its patches took
  // Parts of consecutive images whose gradients are summed apart, and then by a tree: who works on
  // which of them does not show in the result. 0: as many as sizes suggest.
  std::int64_t lanes = 0;
  // What is random in a step on the batch follows from these and the images' indices.
  std::uint64_t seed = 0;
  std::int64_t epoch = 0, step = 0;  // step: batches since the first epoch

  std::int64_t size() const { return images.defined() ? images.dim(0) : 0; }
  Tensor input() const;  // images as a model reads them
  std::array<Tensor*, 6> tensors() { return {&images, &norm, &keep, &labels, &boxes, &has_box}; }
};

class Loader {
 public:
  // The data set must outlive the loader.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::int64_t batches() const { return batches_; }  // of a whole epoch
  // Begins an epoch, at any of its batches; then next() gives them one by one.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch = 0);
  // False at the end of the epoch. If making the batch failed, throws what it threw.
  bool next(Batch& batch);

 private:
  struct Epoch {
    std::int64_t number = -1;
    std::uint64_t generation = 0;  // counts start_epoch calls
  };
  void work();
  void order_items(std::int64_t epoch);
  // The number of a slot's draw in the streams: each view of each item has its own.
  std::int64_t draw_number(std::int64_t slot, const Batch& batch) const;
  // False if it was given up, because another epoch was started or the loader ends.
  bool make_batch(const Epoch& epoch, std::int64_t index, Batch& batch);
  SentAhead send(Batch& batch) const;
  // What is random about a batch.
  struct Draws {
    std::uint64_t augment = 0, select = 0;  // keys of the streams
    Tensor keep;                            // [B,k], to be chosen; undefined: all patches are kept
  };
  Draws draws_of(std::int64_t epoch, std::int64_t index, std::int64_t images) const;
  void make_item(std::int64_t slot, const Draws& draws, bool needed, Batch& batch);
  Tensor empty_images(std::int64_t n, const Draws& draws) const;
  void write_pixels(std::int64_t slot, const Draws& draws, Batch& batch);
  Augmentation augmentation(std::uint64_t key, std::int64_t number) const;
  enum class Telling { begin, now_and_then, rest };
  void tell_work(Telling what);

  const Dataset& dataset_;
  const LoaderOptions options_;
  const Normalizer normalize_;
  const Tensor norm_;
  const std::int64_t batch_items_, batches_;
  const std::size_t ahead_;  // batches kept ready

  // Of the worker alone.
  Fit fit_;
  Image image_;
  Tensor pixels_;  // u8 [1,C,H,W] of an item, before normalisation
  std::optional<PatchSelector> selector_;
  std::optional<BalancedOrder> balanced_;
  CachedVector<std::int64_t> order_;
  std::int64_t ordered_epoch_ = -1;
  std::int64_t told_ns_ = 0;  // work before this has been told

  std::mutex mutex_;
  std::condition_variable wake_worker_, wake_reader_;
  std::atomic<std::uint64_t> generation_{0};
  Epoch epoch_;
  std::int64_t to_make_ = 0, to_take_ = 0;  // batch indices of the epoch
  struct Made {
    Batch batch;
    SentAhead sent;  // to options_.device; declared last, as it must not outlive the batch
  };
  std::deque<Made, CachedAllocator<Made>> ready_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread worker_;  // last, so that it starts when all else is made
};

}  // namespace hg
