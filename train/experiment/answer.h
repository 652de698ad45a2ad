// The answer to an experiment's question in words that follow from its numbers, by fixed rules:
// energy is saved where data and device are equal, the 95 % interval of the saving lies above 0 and
// the corrected test agrees; F1 is the same where a test of equivalence says so. Where epochs or
// batch differ, less energy is a saving only at an F1 that is shown to be the same or higher. Pure.
#pragma once

#include "train/experiment/analysis.h"

namespace hg::experiment {

// The names are those of results.json.
enum class Finding { saves, saves_at_lower_f1, no_saving_shown, costs_more, cannot_be_said };

// Of the arm's F1 against the baseline's. Not to find a difference does not make them equivalent.
enum class F1Finding { equivalent, lower, higher, not_shown };

struct ArmAnswer {
  std::string arm;
  Finding finding = Finding::cannot_be_said;
  F1Finding f1 = F1Finding::not_shown;
  std::string text;       // a few sentences with the numbers
  std::string to_target;  // one sentence
};

struct Answer {
  std::string headline;  // one or two sentences on all arms
  std::vector<ArmAnswer> arms;
  std::string goal;  // whether it was reached; empty: the experiment has none
  std::vector<std::string> caveats;
};

Answer answer(const Plan& plan, const Analysis& analysis);

}  // namespace hg::experiment
