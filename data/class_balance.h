// Class-balanced batches, for losses that compare images: an order of items in which every batch
// holds P classes with R different images each.
#pragma once

#include <span>

#include "data/dataset.h"
#include "tensor/random.h"

namespace hg {

struct ClassBalance {
  std::int64_t classes = 0, images = 0;  // P, and R of each

  std::int64_t batch() const { return classes * images; }
};

// The largest batch of at most `batch_size`. classes = 0: all that have two images or more, or as
// many as fit with two images each. Throws unless that makes 2 classes of 2 images, and the data
// set has enough classes of that size.
ClassBalance balance_classes(const Dataset& dataset, std::int64_t batch_size, std::int64_t classes);

void shuffle(std::span<std::int64_t> values, RandomStream& stream);

// Deals cards; shuffles them all again when fewer are left than are asked for.
class Deck {
 public:
  void add(std::int64_t card) { cards_.push_back(card); }
  std::size_t size() const { return cards_.size(); }
  void reset();  // forgets what it has dealt
  std::span<const std::int64_t> deal(std::int64_t count, RandomStream& stream);

 private:
  CachedVector<std::int64_t> cards_;
  std::size_t next_ = 0;
};

class BalancedOrder {
 public:
  BalancedOrder(const Dataset& dataset, const ClassBalance& balance);
  // The items of an epoch, batch after batch. They depend on seed and epoch alone.
  void fill(std::uint64_t seed, std::int64_t epoch, std::span<std::int64_t> order);

 private:
  ClassBalance balance_;
  std::vector<Deck> items_;  // of each class that has enough images
  Deck classes_;             // their indices in items_
};

}  // namespace hg
