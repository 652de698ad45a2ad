// Choosing each arm's settings from the [sweep] of an experiment file by successive halving: all
// candidates train briefly, the better half of them longer, the last ones for all epochs. Judged on
// images held out of the training images. What is run and who survives; pure but for the images
// that are counted.
#pragma once

#include "train/experiment/plan.h"

namespace hg::experiment {

// One point of the sweep, on top of an arm.
struct Candidate {
  std::vector<Setting> settings;
  Config config;  // all epochs, tested on images held out
};

struct TunedArm {
  std::string name;
  std::vector<Candidate> candidates;   // in the order of the sweep
  std::vector<std::int64_t> divisors;  // a rung trains for epochs / divisor; the last is 1
  std::vector<std::size_t>
      draw_order;  // of candidates, by the seed: a small budget takes the first
};

struct TunePlan {
  Plan plan;
  std::vector<TunedArm> arms;
  std::int64_t held_out = 0;   // images that are tested on
  bool held_out_here = false;  // as the file's settings held out none
};
// Throws UsageError for a file without [sweep] and for values that an arm cannot have.
TunePlan plan_tuning(const ExperimentFile& file, const Request& request);

// The configuration of a rung.
Config at_rung(const Config& config, std::int64_t divisor);

// How many candidates train at each rung: half of the rung before, but two or more, so that the
// last choice is made after all epochs. One candidate needs no training.
std::vector<std::size_t> halving(std::size_t candidates, std::size_t rungs);
// The most candidates, of n, whose halving costs no more than the budget, where a run of rung r
// costs run_cost[r]; 1: none can be compared.
std::size_t most_within(double budget, std::size_t n, const std::vector<double>& run_cost);

struct TuneScore {
  std::size_t candidate = 0;
  double micro_f1 = 0, energy_j = 0;
};
// The best by F1, of equal ones the cheaper, by rising number of candidate.
std::vector<std::size_t> survivors(std::vector<TuneScore> scores, std::size_t count);

// The file with each arm's choice as its settings, and without [sweep]. `chosen` by arm.
ExperimentFile tuned_file(ExperimentFile file, const std::vector<std::vector<Setting>>& chosen);

}  // namespace hg::experiment
