#include "train/eval/metrics.h"

#include "tensor/base/error.h"

namespace hg {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }
double harmonic_mean(double a, double b) { return ratio(2 * a * b, a + b); }

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  require(classes >= 1, "metrics", "expected at least 1 class, got {}", classes);
}

void ConfusionMatrix::add(std::int64_t truth, std::int64_t predicted) {
  require(truth >= 0 && truth < classes_, "metrics", "label {} out of range for {} classes", truth,
          classes_);
  require(predicted >= 0 && predicted < classes_, "metrics",
          "prediction {} out of range for {} classes", predicted, classes_);
  ++cells_[{truth, predicted}];
  ++total_;
}

std::int64_t ConfusionMatrix::count(std::int64_t truth, std::int64_t predicted) const {
  const auto cell = cells_.find({truth, predicted});
  return cell == cells_.end() ? 0 : cell->second;
}

Metrics ConfusionMatrix::metrics() const {
  require(total_ > 0, "metrics", "no samples");
  Metrics m;
  m.classes.resize(static_cast<std::size_t>(classes_));
  for (const auto& [pair, count] : cells_) {
    m.classes[static_cast<std::size_t>(pair.first)].support += count;
    m.classes[static_cast<std::size_t>(pair.second)].predicted += count;
  }
  std::int64_t hits = 0, support = 0, predicted = 0, present = 0;
  double f1_sum = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    ClassMetrics& of_class = m.classes[static_cast<std::size_t>(c)];
    const std::int64_t right = count(c, c);
    of_class.precision = ratio(static_cast<double>(right), static_cast<double>(of_class.predicted));
    of_class.recall = ratio(static_cast<double>(right), static_cast<double>(of_class.support));
    of_class.f1 = ratio(2.0 * static_cast<double>(right),
                        static_cast<double>(of_class.predicted + of_class.support));
    hits += right;
    support += of_class.support;
    predicted += of_class.predicted;
    present += of_class.support + of_class.predicted > 0;
    f1_sum += of_class.f1;
  }
  m.accuracy = ratio(static_cast<double>(hits), static_cast<double>(total_));
  m.micro_f1 = harmonic_mean(ratio(static_cast<double>(hits), static_cast<double>(predicted)),
                             ratio(static_cast<double>(hits), static_cast<double>(support)));
  m.macro_f1 = f1_sum / static_cast<double>(present);
  return m;
}

}  // namespace hg
