// Made-up runs with given figures.
#pragma once

#include "train/experiment/results.h"

namespace hg::experiment {

inline RunFigures synthetic_run(const std::string& arm, std::int64_t seed, double energy_j,
                                double f1) {
  RunFigures run;
  run.arm = arm;
  run.seed = seed;
  run.folder = "runs/" + arm + "-" + std::to_string(seed);
  run.energy_j = {energy_j, 0.8 * energy_j, 1.2 * energy_j};
  run.energy_kind = "modelled";
  run.energy_source = "a made-up meter <&>";
  run.micro_f1 = run.macro_f1 = run.accuracy = f1;
  run.seconds = energy_j / 10;
  run.flops = 1'000'000'000;
  run.images = 100;
  run.tokens = 1700;
  run.epochs = 2;
  run.evaluations = {{1, energy_j / 2, f1 - 0.1, 5e8}, {2, energy_j, f1, 1e9}};
  return run;
}

inline std::vector<RunFigures> synthetic_runs(const std::string& arm,
                                              const std::vector<double>& energies,
                                              const std::vector<double>& f1) {
  std::vector<RunFigures> runs;
  for (std::size_t i = 0; i < energies.size(); ++i)
    runs.push_back(
        synthetic_run(arm, static_cast<std::int64_t>(i) + 1, energies[i], f1[i % f1.size()]));
  return runs;
}

inline Results synthetic_results(const Plan& plan, const std::vector<RunFigures>& baseline,
                                 const std::vector<RunFigures>& other) {
  std::vector<RunFigures> runs = baseline;
  runs.insert(runs.end(), other.begin(), other.end());
  Results r{plan, "finished", "a machine", analyse(plan, runs), {}};
  r.answer = answer(plan, r.analysis);
  return r;
}

}  // namespace hg::experiment
