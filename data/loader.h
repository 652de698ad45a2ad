// Batches of a data set, made ahead of time on threads of their own. Whatever is random depends on
// seed, epoch, item and view alone, so an epoch that is entered at any batch, at any speed, with
// any number of threads, gives the same bits.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

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
  // boxes, but neither pixels nor patches. Asked on a thread of the loader's, of shapes alone.
  std::function<std::pair<std::int64_t, std::int64_t>(const Batch&)> needed;
  // Called on each of the loader's threads for each stretch of its work outside ops, at most some
  // milliseconds long or one image, on the clock of now_ns().
  std::function<void(std::int64_t start_ns, std::int64_t end_ns)> on_work;
  int workers = 0;  // threads; 0: as said at workers_for()
};

// Threads that suit a data set: one where images are in memory, else as many as ops may use here,
// but not more than 16.
int workers_for(const Dataset& dataset);

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
  // What is random about a batch.
  struct Draws {
    std::uint64_t augment = 0, select = 0;  // keys of the streams
    Tensor keep;                            // [B,k], to be chosen; undefined: all patches are kept
  };
  // A batch that is being made, or waits to be taken. Shares of its slots are given out in order.
  struct Making {
    std::uint64_t generation = 0;
    Batch batch;
    Draws draws;
    std::int64_t slots = 0, given_out = 0, shares_out = 0;
    std::pair<std::int64_t, std::int64_t> needed;  // slots [first, second) whose pixels are made
    std::int64_t faulty_slot = INT64_MAX;          // the first one that failed, and how
    std::exception_ptr failure;
    bool done = false;
    SentAhead sent;  // to options_.device; declared last, as it must not outlive the batch
  };
  struct Share {
    std::shared_ptr<Making> of;
    std::int64_t begin = 0, end = 0;  // slots
  };
  // What one thread works with.
  struct Worker {
    Fit fit;
    Image image;
    Tensor pixels;  // u8 [1,C,H,W] of an item, before normalisation
    std::optional<PatchSelector> selector;
    std::int64_t told_ns = 0;  // work before this has been told
  };

  void add_worker();
  void end_threads();
  void work(Worker& worker);
  void make_share(Worker& worker, const Share& share);
  void send(Making& making);
  // These with the lock held.
  bool has_work() const;
  Share give_out();
  void begin_batch();
  bool completes(const Share& share, Worker& worker);
  void fail_at(std::int64_t slot, Making& making);

  void order_items(std::int64_t epoch);
  // The number of a slot's draw in the streams: each view of each item has its own.
  std::int64_t draw_number(std::int64_t slot, const Batch& batch) const;
  void prepare(std::int64_t epoch, std::int64_t index, Making& making);
  Draws draws_of(std::int64_t epoch, std::int64_t index, std::int64_t images) const;
  void make_item(Worker& worker, std::int64_t slot, Making& making) const;
  Tensor empty_images(std::int64_t n, const Draws& draws) const;
  void write_pixels(Worker& worker, std::int64_t slot, Making& making) const;
  Augmentation augmentation(std::uint64_t key, std::int64_t number) const;
  enum class Telling { begin, now_and_then, rest };
  void tell_work(Worker& worker, Telling what) const;

  const Dataset& dataset_;
  const LoaderOptions options_;
  const int worker_count_;
  const Normalizer normalize_;
  const Tensor norm_;
  const std::int64_t batch_items_, batches_;
  const std::size_t ahead_;  // batches kept ready or in the making
  std::deque<Worker> workers_;

  std::mutex mutex_;  // of all below
  std::condition_variable wake_workers_, wake_reader_;
  std::optional<BalancedOrder> balanced_;
  CachedVector<std::int64_t> order_;
  std::int64_t ordered_epoch_ = -1;
  std::int64_t epoch_ = -1;
  std::atomic<std::uint64_t> generation_{0};  // counts start_epoch calls; read without the lock
  std::int64_t to_make_ = 0, to_take_ = 0;    // batch indices of the epoch
  std::deque<std::shared_ptr<Making>, CachedAllocator<std::shared_ptr<Making>>> queue_;
  bool failed_ = false, stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hg
