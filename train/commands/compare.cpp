// hgtrain compare: variants of attention side by side, the rest of the configuration the same.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "energy/meters/choice.h"
#include "energy/meters/window.h"
#include "tensor/base/columns.h"
#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/memory_peak.h"
#include "train/commands/commands.h"
#include "train/config/model_options.h"
#include "train/config/variants.h"
#include "train/phases/measured_step.h"
#include "train/run/run.h"
#include "train/statistics/sample.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRoundSeconds = 0.05;  // of one variant, at least: what a meter can resolve
constexpr double kConfidence = 0.95;

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
  std::vector<double> ms, cpu_ms, joules;  // a step, of every round: all three of the same steps
  std::optional<Trained> trained;
};

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
    for (std::uint64_t i = 0; i < calls; ++i) (*arm.step)();
  });
  const auto steps = static_cast<double>(window.calls);
  arm.ms.push_back(window.seconds * 1e3 / steps);
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

// What a variant is, and what it took, round by round.
struct Figure {
  const char* name;
  double (*of)(const Arm&);  // null: it was measured
  const std::vector<double>& (*rounds)(const Arm&);
  const char* unit;  // of the table's column; null: it has none
  double scale;      // of the table, against the figure
  int decimals;

  double value(const Arm& arm) const { return of ? of(arm) : statistics::median(rounds(arm)); }
};
constexpr Figure kFigures[] = {
    {"parameters", [](const Arm& a) { return static_cast<double>(a.parameters); }, nullptr,
     "parameters", 1, 0},
    {"flops_per_step", [](const Arm& a) { return static_cast<double>(a.flops); }, nullptr, "GFLOP",
     1e-9, 3},
    {"ms_per_step", nullptr, [](const Arm& a) -> const std::vector<double>& { return a.ms; }, "ms",
     1, 3},
    {"cpu_ms_per_step", nullptr,
     [](const Arm& a) -> const std::vector<double>& { return a.cpu_ms; }, nullptr, 1, 3},
    {"energy_j_per_step", nullptr,
     [](const Arm& a) -> const std::vector<double>& { return a.joules; }, "J", 1, 4},
    {"peak_bytes", [](const Arm& a) { return static_cast<double>(a.peak_bytes); }, nullptr,
     "peak MB", 1e-6, 1},
};

// To the first variant's. Measured figures are compared round by round, since what disturbs the
// machine disturbs neighbours alike.
struct Ratio {
  double value = 1;
  std::optional<statistics::Interval> interval;  // of measured figures, from 6 rounds on
  bool noise = false;                            // it may be 1
};

Ratio ratio_of(const Figure& figure, const Arm& arm, const Arm& first) {
  if (figure.of) return {figure.of(arm) / figure.of(first), {}, false};
  const std::vector<double>&a = figure.rounds(first), &b = figure.rounds(arm);
  std::vector<double> ratios;
  for (std::size_t round = 0; round < a.size(); ++round) ratios.push_back(b[round] / a[round]);
  Ratio ratio{statistics::median(ratios), statistics::median_interval(ratios, kConfidence), false};
  ratio.noise = &arm != &first &&
                (!ratio.interval || (ratio.interval->low <= 1 && ratio.interval->high >= 1));
  return ratio;
}

Json to_json(const Arm& arm, const Arm& first) {
  Json out{{"attention", arm.label}}, ratios, intervals, noise, rounds;
  for (const Figure& f : kFigures) {
    const Ratio ratio = ratio_of(f, arm, first);
    out[f.name] = f.value(arm);
    ratios[f.name] = ratio.value;
    if (f.of) continue;
    const statistics::Interval spread = statistics::quartiles(f.rounds(arm));
    out["quartiles"][f.name] = {spread.low, spread.high};
    rounds[f.name] = f.rounds(arm);
    noise[f.name] = ratio.noise;
    intervals[f.name] =
        ratio.interval ? Json{ratio.interval->low, ratio.interval->high} : Json(nullptr);
  }
  for (const auto& [name, figures] : {std::pair{"ratios", ratios},
                                      {"ratio_intervals", intervals},
                                      {"within_noise", noise},
                                      {"rounds", rounds}})
    out[name] = figures;
  out["parameters"] = arm.parameters;  // counts are whole numbers
  out["flops_per_step"] = arm.flops;
  out["peak_bytes"] = arm.peak_bytes;
  const auto& t = arm.trained;
  out["micro_f1"] = t ? Json(t->scores.micro_f1) : Json();
  out["macro_f1"] = t ? Json(t->scores.macro_f1) : Json();
  out["accuracy"] = t ? Json(t->scores.accuracy) : Json();
  out["train"] = nullptr;
  if (t) out["train"] = {{"energy_j", t->joules}, {"seconds", t->seconds}, {"folder", t->folder}};
  return out;
}

// "12.345 (12.1 to 13.0)": the median and the quartiles of what was measured.
std::string figure_cell(const Figure& f, const Arm& arm) {
  const std::string text = fmt::format("{:.{}f}", f.value(arm) * f.scale, f.decimals);
  if (f.of) return text;
  const statistics::Interval spread = statistics::quartiles(f.rounds(arm));
  return fmt::format("{} ({:.{}f} to {:.{}f})", text, spread.low * f.scale, f.decimals,
                     spread.high * f.scale, f.decimals);
}

std::vector<std::string> cells_of(const Arm& arm, const Arm& first) {
  const auto& t = arm.trained;
  std::vector<std::string> cells{arm.label, t ? fmt::format("{:.4f}", t->scores.micro_f1) : "-"};
  for (const Figure& f : kFigures) {
    if (!f.unit) continue;
    const Ratio ratio = ratio_of(f, arm, first);
    cells.push_back(figure_cell(f, arm));
    cells.push_back(fmt::format("{:.3f}{}", ratio.value, ratio.noise ? "~" : " "));
  }
  if (t)
    cells.push_back(
        fmt::format("{}, {:.0f} s: {}", with_prefix(t->joules, "J"), t->seconds, t->folder));
  return cells;
}

void print_table(const std::vector<Arm>& arms) {
  std::vector<std::string> head{"attention", "F1"};
  for (const Figure& f : kFigures)
    if (f.unit) head.insert(head.end(), {f.unit, "ratio "});
  if (std::any_of(arms.begin(), arms.end(), [](auto& a) { return a.trained; }))
    head.push_back("training");
  TextTable table(head);
  for (const Arm& arm : arms) table.add(cells_of(arm, arms[0]));
  fmt::print("{}", table.text(columns_of(stdout)));
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
  const energy::MeterChoice choice =
      energy::open_meter(energy::MeterSetup::from_environment(device_of(config.run)));
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
    const std::string facts = fmt::format(
        "{}: a training step of {} images on random data, {} threads; ms and J are medians "
        "(quartiles) of {} rounds, the variants in turn\n"
        "ratio: to the first, round by round; ~ within noise: {}\n"
        "energy: {} by {} ({})\n"
        "peak MB: what the engine's allocator had in use for this variant alone (weights, "
        "moments, activations, gradients, scratch), without the program itself\n",
        config.run.name, batch, cpu::threads(), options.steps,
        statistics::median_interval(arms[0].ms, kConfidence)
            ? "its 95 % interval holds 1"
            : "so few rounds give no 95 % interval (--steps 6 or more do)",
        energy::to_string(meter.kind()), meter.name(), meter.source());
    print_folded(stdout, facts);
  }
  return whole ? 0 : kInterruptedExitCode;
}

}  // namespace hg
