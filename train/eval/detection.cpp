#include "train/eval/detection.h"

#include <algorithm>

#include "tensor/base/error.h"

namespace hg {
namespace {

constexpr double kLeastIou = 0.5;

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

struct Counts {
  std::int64_t right = 0, predicted = 0, support = 0;
  bool present() const { return predicted + support > 0; }
  double f1() const { return share(2 * right, predicted + support); }
};

// Recall and precision when all predictions down to some score are taken.
struct CurvePoint {
  double recall, precision;
};

// The area under the curve, whose precision is raised to the best at any higher recall.
double area_under(const std::vector<CurvePoint>& curve) {
  double area = 0, best = 0;
  for (std::size_t i = curve.size(); i-- > 0;) {
    best = std::max(best, curve[i].precision);
    area += best * (curve[i].recall - (i > 0 ? curve[i - 1].recall : 0));
  }
  return area;
}

}  // namespace

std::map<std::string, double> figures_of(const DetectionMetrics& m) {
  return {{"mean_iou", m.mean_iou},
          {"map_50", m.map_50},
          {"localization_accuracy", m.localization_accuracy},
          {"iou_50", m.iou_50}};
}

bool DetectionTally::Detection::right() const { return truth == predicted && iou >= kLeastIou; }

DetectionTally::DetectionTally(std::int64_t classes) : classes_(classes) {
  require(classes >= 1, "detection", "expected at least 1 class, got {}", classes);
}

void DetectionTally::add(std::int64_t truth, std::int64_t predicted, double score, double iou) {
  for (const std::int64_t c : {truth, predicted})
    require(c >= 0 && c < classes_, "detection", "class {} out of range for {} classes", c,
            classes_);
  all_.push_back({truth, predicted, score, iou});
}

// Predictions of the same score come together: their order says nothing.
double DetectionTally::average_precision(std::int64_t of_class, std::int64_t support) const {
  std::vector<Detection> found;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(found),
               [&](const Detection& d) { return d.predicted == of_class; });
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.score > b.score; });
  std::vector<CurvePoint> curve;
  std::int64_t right = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    right += found[i].right();
    if (i + 1 < found.size() && found[i + 1].score == found[i].score) continue;
    curve.push_back({share(right, support), share(right, static_cast<std::int64_t>(i) + 1)});
  }
  return area_under(curve);
}

DetectionMetrics DetectionTally::metrics() const {
  require(!all_.empty(), "detection", "no image has a box");
  std::vector<Counts> of_class(static_cast<std::size_t>(classes_));
  DetectionMetrics m;
  Counts sum;
  std::int64_t well_placed = 0;
  m.boxes = boxes();
  for (const Detection& d : all_) {
    of_class[static_cast<std::size_t>(d.predicted)].predicted += 1;
    of_class[static_cast<std::size_t>(d.truth)].support += 1;
    of_class[static_cast<std::size_t>(d.truth)].right += d.right();
    sum.right += d.right();
    well_placed += d.iou >= kLeastIou;
    m.mean_iou += d.iou / static_cast<double>(m.boxes);
  }
  sum.predicted = sum.support = m.boxes;
  m.localization_accuracy = share(sum.right, m.boxes);
  m.iou_50 = share(well_placed, m.boxes);
  m.micro_f1 = sum.f1();
  std::int64_t present = 0, true_classes = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const Counts& counts = of_class[static_cast<std::size_t>(c)];
    if (!counts.present()) continue;
    present += 1;
    m.macro_f1 += counts.f1();
    if (counts.support == 0) continue;
    true_classes += 1;
    m.map_50 += average_precision(c, counts.support);
  }
  m.macro_f1 /= static_cast<double>(present);
  m.map_50 /= static_cast<double>(true_classes);
  return m;
}

}  // namespace hg
