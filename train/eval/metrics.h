// Classification metrics from a confusion matrix.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace hg {

// Precision, recall and F1 are 0 where their denominator is.
struct ClassMetrics {
  double precision = 0, recall = 0, f1 = 0;
  std::int64_t support = 0;    // samples of the class
  std::int64_t predicted = 0;  // samples given the class
};

struct Metrics {
  double accuracy = 0;
  double micro_f1 = 0;  // from summed counts; equals accuracy, each sample having one label
  // Mean F1 of the classes present: those with neither a sample nor a prediction are skipped, as
  // scikit-learn does when labels are left to it.
  double macro_f1 = 0;
  std::vector<ClassMetrics> classes;
};

// Counts of (truth, prediction). Only pairs that occur take memory: 1000 classes are no burden.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);

  void add(std::int64_t truth, std::int64_t predicted);
  std::int64_t total() const { return total_; }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const;
  // Those that occur, with their counts.
  const std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>& cells() const {
    return cells_;
  }
  Metrics metrics() const;  // throws without samples

 private:
  std::int64_t classes_, total_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> cells_;
};

}  // namespace hg
