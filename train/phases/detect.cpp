// detect: class and box of the one object of each image, by heads on the same pooled output;
// cross-entropy plus the box loss (nn/METHODS.md, section 7).
#include "train/phases/registry.h"
#include "train/phases/supervised.h"

namespace hg {
namespace {

void require_boxes_in(const Config& config, std::size_t index, const RunData& data) {
  require_boxes(config, index, *data.train);
  require_boxes(config, index, *data.test);
}

}  // namespace

const PhaseKind kDetect{.name = "detect",
                        .learns_classes = true,
                        .finds_boxes = true,
                        .heads = "box_head",
                        .check_data = require_boxes_in,
                        .shape = labelled_batch,
                        .learner = [](const LearnerSetting& s) -> std::unique_ptr<Learner> {
                          return std::make_unique<SupervisedLearner>(
                              s, SupervisedOptions{.freeze = s.phase().freeze, .boxes = true});
                        }};

}  // namespace hg
