// What steps take that the ranks of this launch take together: info --ranks and bench under mpirun.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/commands/scaling.h"
#include "train/phases/measured_step.h"

namespace hg {

struct SharedSteps {
  std::vector<double> ms;             // of each step, on this rank
  double exchange_s = 0, wait_s = 0;  // a step, a mean over ranks
  double joules = 0;                  // a step, of all ranks
  std::string energy_kind{};
  // Between these ranks: of small messages, and of the exchange. None on GPUs, which exchange while
  // they work.
  std::optional<Network> network{};

  double step_s() const;  // a mean
};
// All ranks call it. Alone, it knows of times only.
SharedSteps take_steps(Measured& step, std::int64_t count);

// Of the ranks of this launch, beside what was predicted of so many.
std::string text_of(const SharedSteps& steps, const StepForecast& predicted);
nlohmann::ordered_json json_of(const SharedSteps& steps, const StepForecast& predicted);

}  // namespace hg
