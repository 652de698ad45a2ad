// hgtrain compare: variants of attention side by side, the rest of the configuration the same.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "energy/meters/choice.h"
#include "energy/meters/window.h"
#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/memory_peak.h"
#include "train/commands/commands.h"
#include "train/config/variants.h"
#include "train/phases/measured_step.h"
#include "train/run/run.h"
#include "train/statistics/sample.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRoundSeconds = 0.05;  // of one variant, at least: what a meter can resolve

struct Trained {
  Scores scores;
  double joules = 0, seconds = 0;
  std::string folder;
};

struct Arm {
  std::string label;
  Config config;
  std::unique_ptr<MeasuredStep> step;
  std::int64_t parameters = 0;
  std::uint64_t flops = 0, peak_bytes = 0;
  std::vector<double> ms;              // of every step
  std::vector<double> cpu_ms, joules;  // a step, of every round
  std::optional<Trained> trained;
};

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

// What the other variants hold was in use before, so the peak is this one's own.
void make_step(Arm& arm) {
  const MemoryPeak peak;
  arm.step = std::make_unique<MeasuredStep>(arm.config);
  arm.flops = arm.step->flops();
  (*arm.step)();  // the first step with the optimizer's moments from the start
  arm.peak_bytes = peak.bytes();
  arm.parameters = arm.step->model().parameters().count();
}

void bench_round(Arm& arm, energy::Meter& meter) {
  const energy::Window window = energy::measure(meter, kRoundSeconds, [&](std::uint64_t calls) {
    for (std::uint64_t i = 0; i < calls; ++i) arm.ms.push_back(arm.step->timed_ms());
  });
  const auto steps = static_cast<double>(window.calls);
  arm.cpu_ms.push_back(window.cpu_seconds * 1e3 / steps);
  arm.joules.push_back(window.total_uj() * 1e-6 / steps);
}

// In turn, so that a machine that is busy or slows down hits all of them.
void bench(std::vector<Arm>& arms, std::int64_t rounds, energy::Meter& meter) {
  for (Arm& arm : arms) make_step(arm);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (Arm& arm : arms) bench_round(arm, meter);
  for (Arm& arm : arms) arm.step.reset();
}

std::string folder_name(const std::string& label) {
  std::string name = label;
  for (char& c : name)
    if (std::string_view(":/[], ").find(c) != std::string_view::npos) c = '_';
  return name;
}

// False: a signal asked to stop.
bool train_arm(Arm& arm, const std::string& parent, const CompareOptions& options) {
  PhaseData data = open_run(arm.config);
  const std::string folder = make_fresh_folder(parent, folder_name(arm.label));
  if (!options.quiet) fmt::print(stderr, "{}:\n", arm.label);
  const RunEnding ending = train_run(arm.config, std::move(data),
                                     {folder, false, false, progress_mode(stderr, options.quiet)});
  const RunSummary& s = ending.summary;
  if (s.accuracy)
    arm.trained = {{*s.accuracy, *s.micro_f1, *s.macro_f1}, s.energy_j.value, s.seconds, folder};
  return ending.end != RunEnd::interrupted;
}

std::vector<Arm> arms_of(const CompareOptions& options) {
  std::vector<Arm> arms;
  for (const AttentionVariant& variant : parse_variants(options.attention, "--attention")) {
    CompareOptions with = options;
    with.settings.insert(with.settings.end(), variant.settings.begin(), variant.settings.end());
    Arm& arm = arms.emplace_back();
    arm.label = variant.label;
    arm.config = with.load();
  }
  return arms;
}

struct Figure {
  const char* name;
  double (*of)(const Arm&);
  const char* unit;  // of the table's column
  double scale;      // of the table, against the figure
  int decimals;
};
constexpr Figure kFigures[] = {
    {"parameters", [](const Arm& a) { return static_cast<double>(a.parameters); }, "parameters", 1,
     0},
    {"flops_per_step", [](const Arm& a) { return static_cast<double>(a.flops); }, "GFLOP", 1e-9, 3},
    {"ms_per_step", [](const Arm& a) { return least(a.ms); }, "ms", 1, 3},
    {"energy_j_per_step", [](const Arm& a) { return least(a.joules); }, "J", 1, 4},
    {"peak_bytes", [](const Arm& a) { return static_cast<double>(a.peak_bytes); }, "peak MB", 1e-6,
     1},
};

Json to_json(const Arm& arm, const Arm& first) {
  Json ratios;
  for (const Figure& f : kFigures) ratios[f.name] = f.of(arm) / f.of(first);
  const auto& t = arm.trained;
  Json out{{"attention", arm.label},
           {"parameters", arm.parameters},
           {"flops_per_step", arm.flops},
           {"ms_per_step", least(arm.ms)},
           {"ms_median", statistics::median(arm.ms)},
           {"cpu_ms_per_step", least(arm.cpu_ms)},
           {"energy_j_per_step", least(arm.joules)},
           {"energy_j_median", statistics::median(arm.joules)},
           {"peak_bytes", arm.peak_bytes},
           {"ratios", ratios},
           {"micro_f1", t ? Json(t->scores.micro_f1) : Json()},
           {"macro_f1", t ? Json(t->scores.macro_f1) : Json()},
           {"accuracy", t ? Json(t->scores.accuracy) : Json()},
           {"train", nullptr}};
  if (t) out["train"] = {{"energy_j", t->joules}, {"seconds", t->seconds}, {"folder", t->folder}};
  return out;
}

void print_table(const std::vector<Arm>& arms) {
  std::size_t width = 9;
  for (const Arm& arm : arms) width = std::max(width, arm.label.size());
  const bool trained = std::any_of(arms.begin(), arms.end(), [](auto& a) { return a.trained; });
  fmt::print("{:<{}} {:>7}", "attention", width, "F1");
  for (const Figure& f : kFigures) fmt::print(" {:>11} {:>6}", f.unit, "ratio");
  fmt::print("{}\n", trained ? "    training" : "");
  for (const Arm& arm : arms) {
    const auto& t = arm.trained;
    fmt::print("{:<{}} {:>7}", arm.label, width,
               t ? fmt::format("{:.4f}", t->scores.micro_f1) : "-");
    for (const Figure& f : kFigures) {
      const double value = f.of(arm);
      fmt::print(" {:>11.{}f} {:>6.3f}", value * f.scale, f.decimals, value / f.of(arms[0]));
    }
    fmt::print("{}\n", t ? fmt::format("    {}, {:.0f} s: {}", with_prefix(t->joules, "J"),
                                       t->seconds, t->folder)
                         : "");
  }
}

}  // namespace

int compare_command(const CompareOptions& options) {
  usage_require(options.out.empty() || options.train, "--out",
                "expected with --train alone: benching leaves no files");
  std::vector<Arm> arms = arms_of(options);
  const Config& config = arms[0].config;
  if (options.train)
    for (const Arm& arm : arms) open_run(arm.config);  // what is wrong shows before anything runs
  options.tell_device(config);
  const energy::MeterChoice choice = energy::open_meter();
  energy::Meter& meter = *choice.meter;
  const std::int64_t batch = config.phases[0].train.batch_size;
  bench(arms, options.steps, meter);
  bool whole = true;
  if (options.train) {
    const std::string parent =
        options.out.empty() ? make_fresh_folder("runs", "compare") : options.out;
    for (auto arm = arms.begin(); whole && arm != arms.end(); ++arm)
      whole = train_arm(*arm, parent, options);
  }
  if (options.json) {
    Json variants = Json::array();
    for (const Arm& arm : arms) variants.push_back(to_json(arm, arms[0]));
    fmt::print("{}\n", Json{{"config", config.run.name},
                            {"batch_size", batch},
                            {"threads", cpu::threads()},
                            {"rounds", options.steps},
                            {"meter",
                             {{"source", meter.source()},
                              {"kind", energy::to_string(meter.kind())},
                              {"name", meter.name()}}},
                            {"variants", variants}}
                           .dump());
  } else {
    print_table(arms);
    fmt::print(
        "{}: a training step of {} images on random data, {} threads; ms and J are the least of "
        "{} rounds, the variants in turn\n"
        "energy: {} by {} ({})\n"
        "peak MB: what the engine's allocator had in use for this variant alone (weights, "
        "moments, activations, gradients, scratch), without the program itself\n",
        config.run.name, batch, cpu::threads(), options.steps, energy::to_string(meter.kind()),
        meter.name(), meter.source());
  }
  return whole ? 0 : kInterruptedExitCode;
}

}  // namespace hg
