#include "data/class_balance.h"

#include <algorithm>

#include "tensor/base/error.h"

namespace hg {
namespace {

// Images of each class.
std::vector<std::int64_t> class_sizes(const Dataset& dataset) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(dataset.classes()), 0);
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    ++sizes[static_cast<std::size_t>(dataset.label(i))];
  return sizes;
}

std::int64_t classes_with(const std::vector<std::int64_t>& sizes, std::int64_t images) {
  return std::count_if(sizes.begin(), sizes.end(), [=](auto n) { return n >= images; });
}

}  // namespace

ClassBalance balance_classes(const Dataset& dataset, std::int64_t batch_size,
                             std::int64_t classes) {
  const std::string& name = dataset.info().name;
  const std::vector<std::int64_t> sizes = class_sizes(dataset);
  require(batch_size >= 4, "class-balanced batches",
          "a batch of {}, expected room for 2 classes of 2 images each", batch_size);
  const std::int64_t with_pairs = classes_with(sizes, 2);
  require(with_pairs >= 2, "class-balanced batches",
          "{} has {} classes of 2 images or more, expected 2 of them", name, with_pairs);
  ClassBalance balance;
  balance.classes = classes > 0 ? classes : std::min(with_pairs, batch_size / 2);
  balance.images = batch_size / balance.classes;
  require(balance.images >= 2, "class-balanced batches",
          "{} classes in a batch of {}, expected 2 images of each", balance.classes, batch_size);
  const std::int64_t enough = classes_with(sizes, balance.images);
  require(enough >= balance.classes, "class-balanced batches",
          "{} classes of {} images each in a batch of {}, but {} has {} such classes",
          balance.classes, balance.images, batch_size, name, enough);
  return balance;
}

void shuffle(std::span<std::int64_t> values, RandomStream& stream) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[stream.below(i)]);
}

void Deck::reset() {
  std::sort(cards_.begin(), cards_.end());
  next_ = cards_.size();
}

std::span<const std::int64_t> Deck::deal(std::int64_t count, RandomStream& stream) {
  const auto wanted = static_cast<std::size_t>(count);
  if (cards_.size() - next_ < wanted) {
    shuffle(cards_, stream);
    next_ = 0;
  }
  next_ += wanted;
  return std::span(cards_).subspan(next_ - wanted, wanted);
}

BalancedOrder::BalancedOrder(const Dataset& dataset, const ClassBalance& balance)
    : balance_(balance), items_(static_cast<std::size_t>(dataset.classes())) {
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    items_[static_cast<std::size_t>(dataset.label(i))].add(i);
  std::erase_if(items_, [&](auto& deck) { return std::ssize(deck) < balance.images; });
  for (std::int64_t c = 0; c < std::ssize(items_); ++c) classes_.add(c);
  require(std::ssize(items_) >= balance.classes, "class-balanced batches",
          "{} classes of {} images, but {} has {} of so many", balance.classes, balance.images,
          dataset.info().name, items_.size());
}

void BalancedOrder::fill(std::uint64_t seed, std::int64_t epoch, std::span<std::int64_t> order) {
  RandomStream stream(seed, fmt::format("data.balance.{}", epoch));
  classes_.reset();
  for (Deck& deck : items_) deck.reset();
  for (auto to = order.begin(); to != order.end();)
    for (const std::int64_t c : classes_.deal(balance_.classes, stream))
      to = std::ranges::copy(items_[static_cast<std::size_t>(c)].deal(balance_.images, stream), to)
               .out;
}

}  // namespace hg
