// The charts of an experiment's page, each a piece of HTML.
#pragma once

#include <string>

#include "train/experiment/analysis.h"

namespace hg::experiment {

std::string savings_chart(const Analysis& a);  // "": no arm has an interval
std::string pareto_chart(const Analysis& a);
// Means over the seeds, with the spread from the lowest to the highest.
std::string f1_by_epoch(const Analysis& a);
std::string f1_by_energy(const Analysis& a);

}  // namespace hg::experiment
