// A confusion matrix with the names of its classes, as confusion.csv has it.
#pragma once

#include "train/eval/metrics.h"
#include "train/store/confusion_csv.h"

namespace hg {

// Classes beyond the names go by their numbers.
std::vector<ConfusionRow> confusion_rows(const ConfusionMatrix& matrix,
                                         const std::vector<std::string>& class_names);

}  // namespace hg
