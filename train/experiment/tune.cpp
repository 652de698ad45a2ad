#include "train/experiment/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tensor/base/usage_error.h"
#include "tensor/random.h"
#include "train/config/phase_kind.h"
#include "train/step/open_data.h"

namespace hg::experiment {
namespace {

constexpr std::size_t kMostCandidates = 4096;
constexpr std::int64_t kHeldOutShare = 10;  // one of so many training images
constexpr std::int64_t kDivisors[] = {4, 2, 1};

// Swept keys that the arm does not set itself.
std::vector<SweptKey> swept_of(const ExperimentFile& file, const FileArm& arm,
                               const std::string& scale) {
  std::set<std::string> own;
  for (const Setting& setting : arm.all_settings(scale)) own.insert(key_of(setting.text));
  std::vector<SweptKey> swept;
  for (const SweptKey& key : file.sweep)
    if (!own.contains(key.key)) swept.push_back(key);
  return swept;
}

// Every combination, the last key changing fastest.
std::vector<std::vector<Setting>> combinations(const std::vector<SweptKey>& keys,
                                               const std::string& source) {
  std::vector<std::vector<Setting>> all{{}};
  for (const SweptKey& key : keys) {
    usage_require(all.size() * key.values.size() <= kMostCandidates, source,
                  "sweep: expected at most {} combinations of values", kMostCandidates);
    std::vector<std::vector<Setting>> longer;
    for (const std::vector<Setting>& before : all)
      for (const Setting& value : key.values) {
        longer.push_back(before);
        longer.back().push_back(value);
      }
    all = std::move(longer);
  }
  return all;
}

// Rungs that train every phase for an epoch or more.
std::vector<std::int64_t> divisors_of(const Config& config) {
  std::vector<std::int64_t> divisors;
  for (const std::int64_t divisor : kDivisors)
    if (std::all_of(config.phases.begin(), config.phases.end(), [&](const PhaseConfig& phase) {
          return divisor == 1 || !kind_of(phase).learner || phase.train.epochs >= divisor;
        }))
      divisors.push_back(divisor);
  return divisors;
}

// The first are as random as any; Fisher and Yates.
std::vector<std::size_t> draw_order(std::size_t n, std::int64_t seed, const std::string& arm) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  RandomStream random(static_cast<std::uint64_t>(seed), "tune " + arm);
  for (std::size_t i = 0; i + 1 < n; ++i) std::swap(order[i], order[i + random.below(n - i)]);
  return order;
}

void hold_out(Config& config, std::int64_t images) {
  const auto hold = [&](DataConfig& data) {
    if (data.validation == 0) data.validation = images;
  };
  hold(config.data);
  for (PhaseConfig& phase : config.phases) hold(phase.data);
}

TunedArm tuned_arm(const ExperimentFile& file, const Request& request, const FileArm& arm,
                   const TunePlan& tuning) {
  TunedArm tuned;
  tuned.name = arm.name;
  ExperimentFile alone = file;
  for (std::vector<Setting>& settings :
       combinations(swept_of(file, arm, tuning.plan.scale), file.source)) {
    alone.arms = {arm};
    alone.arms[0].settings.insert(alone.arms[0].settings.end(), settings.begin(), settings.end());
    Candidate candidate{std::move(settings), make_plan(alone, request).arms[0].config};
    hold_out(candidate.config, tuning.held_out);
    tuned.candidates.push_back(std::move(candidate));
  }
  // Where epochs are swept, the shortest training sets the rungs.
  tuned.divisors = {std::begin(kDivisors), std::end(kDivisors)};
  for (const Candidate& candidate : tuned.candidates)
    if (const auto own = divisors_of(candidate.config); own.size() < tuned.divisors.size())
      tuned.divisors = own;
  tuned.draw_order = draw_order(tuned.candidates.size(), tuning.plan.first_seed, arm.name);
  return tuned;
}

}  // namespace

TunePlan plan_tuning(const ExperimentFile& file, const Request& request) {
  usage_require(!file.sweep.empty(), file.source,
                "expected a section [sweep] with the values to try: \"train.learning_rate\" = "
                "[1e-3, 2e-3]");
  for (const std::string& setting : request.settings)
    for (const SweptKey& swept : file.sweep)
      usage_require(key_of(setting) != swept.key, "--set", "{}: is swept in {}", swept.key,
                    file.source);
  TunePlan tuning;
  tuning.plan = make_plan(file, request);
  const Config& first = tuning.plan.arms[0].config;
  tuning.held_out = first.data.validation;
  if (tuning.held_out == 0) {
    const auto images = open_data(first, first.data, Split::train)->size();
    tuning.held_out = std::max<std::int64_t>(1, images / kHeldOutShare);
    tuning.held_out_here = true;
  }
  for (const FileArm& arm : file.arms) tuning.arms.push_back(tuned_arm(file, request, arm, tuning));
  return tuning;
}

Config at_rung(const Config& config, std::int64_t divisor) {
  Config shorter = config;
  const auto shorten = [&](TrainConfig& train) {
    train.epochs = std::max<std::int64_t>(1, train.epochs / divisor);
    train.warmup_epochs /= static_cast<double>(divisor);
  };
  shorten(shorter.train);
  for (PhaseConfig& phase : shorter.phases) shorten(phase.train);
  return shorter;
}

std::vector<std::size_t> halving(std::size_t candidates, std::size_t rungs) {
  std::vector<std::size_t> counts;
  if (candidates < 2) return counts;
  for (std::size_t rung = 0; rung < rungs; ++rung) {
    counts.push_back(candidates);
    candidates = std::max<std::size_t>(2, (candidates + 1) / 2);
  }
  return counts;
}

std::size_t most_within(double budget, std::size_t n, const std::vector<double>& run_cost) {
  for (std::size_t count = n; count > 1; --count) {
    const std::vector<std::size_t> counts = halving(count, run_cost.size());
    double cost = 0;
    for (std::size_t rung = 0; rung < counts.size(); ++rung)
      cost += static_cast<double>(counts[rung]) * run_cost[rung];
    if (cost <= budget) return count;
  }
  return 1;
}

std::vector<std::size_t> survivors(std::vector<TuneScore> scores, std::size_t count) {
  std::sort(scores.begin(), scores.end(), [](const TuneScore& a, const TuneScore& b) {
    if (a.micro_f1 != b.micro_f1) return a.micro_f1 > b.micro_f1;
    if (a.energy_j != b.energy_j) return a.energy_j < b.energy_j;
    return a.candidate < b.candidate;
  });
  std::vector<std::size_t> best;
  for (std::size_t i = 0; i < std::min(count, scores.size()); ++i)
    best.push_back(scores[i].candidate);
  std::sort(best.begin(), best.end());
  return best;
}

ExperimentFile tuned_file(ExperimentFile file, const std::vector<std::vector<Setting>>& chosen) {
  for (std::size_t i = 0; i < file.arms.size(); ++i)
    file.arms[i].settings.insert(file.arms[i].settings.end(), chosen[i].begin(), chosen[i].end());
  file.sweep.clear();
  return file;
}

}  // namespace hg::experiment
