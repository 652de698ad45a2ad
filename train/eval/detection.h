// Metrics of single-object detection: each image has one true class and box and gets one predicted
// class, with its probability as score, and one box (nn/METHODS.md, section 7).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "train/eval/metrics.h"

namespace hg {

// A prediction is right if its class is and its IoU with the true box is at least 0.5.
struct DetectionMetrics {
  double mean_iou = 0;
  double localization_accuracy = 0;  // right predictions
  double iou_50 = 0;                 // boxes with an IoU of at least 0.5, whatever the class
  // F1 of right predictions: a wrong one is a false positive of the class predicted and a false
  // negative of the true one. micro: of the summed counts; macro: mean of the classes that are
  // present, in truth or prediction.
  double micro_f1 = 0, macro_f1 = 0;
  // mAP@0.5: mean over the true classes of their average precision, the area under precision over
  // recall as the score needed falls, precision being the best at that recall or a higher one.
  double map_50 = 0;
  std::int64_t boxes = 0;  // true ones; images without one do not count
};

// By the names of summary.json and eval --json: mean_iou, map_50, localization_accuracy, iou_50.
std::map<std::string, double> figures_of(const DetectionMetrics& metrics);

class DetectionTally {
 public:
  explicit DetectionTally(std::int64_t classes);
  void add(std::int64_t truth, std::int64_t predicted, double score, double iou);
  std::int64_t boxes() const { return static_cast<std::int64_t>(all_.size()); }
  DetectionMetrics metrics() const;  // throws without boxes

 private:
  struct Detection {
    std::int64_t truth, predicted;
    double score, iou;
    bool right() const;
  };
  double average_precision(std::int64_t of_class, std::int64_t support) const;

  std::int64_t classes_;
  std::vector<Detection> all_;
};

}  // namespace hg
