#include "train/phases/phase.h"

#include "tensor/random.h"
#include "train/phases/supervised.h"
#include "train/usage_error.h"

namespace hg {

std::uint64_t PhaseSetting::seed() const {
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  return index == 0 ? seed : RandomStream(seed, fmt::format("phase.{}", index)).key();
}

LoaderOptions PhaseSetting::loading(Split split) const {
  LoaderOptions options = loader_options(config, phase(), split, seed());
  options.on_work = [note = on_loading, split](std::int64_t start_ns, std::int64_t end_ns) {
    note(split, start_ns, end_ns);
  };
  return options;
}

std::int64_t epochs_of(const PhaseConfig& phase) {
  return phase.kind == "prune" ? 1 : phase.train.epochs;
}

std::unique_ptr<TrainingPhase> make_phase(const PhaseSetting& setting, const Safetensors* before,
                                          bool resumed) {
  const std::string& kind = setting.phase().kind;
  if (kind == "supervised") return std::make_unique<SupervisedPhase>(setting, before, resumed);
  fail("phase", "no phase is called \"{}\"", kind);
}

void check_phases(const Config& config) {
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    const PhaseConfig& phase = config.phases[i];
    usage_require(phase.kind == "supervised", fmt::format("phase.{}.kind", i),
                  "\"{}\" is not available in this version; expected \"supervised\"", phase.kind);
    usage_require(phase.freeze.empty(), fmt::format("phase.{}.freeze", i),
                  "is not available in this version");
  }
}

}  // namespace hg
