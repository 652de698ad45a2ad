// hgprof CONFIG: where the joules of a configuration's training steps go.
#include <nlohmann/json.hpp>

#include "energy/meters/choice.h"
#include "tensor/base/files.h"
#include "tensor/cpu/parallel.h"
#include "tools/hgprof/commands.h"
#include "tools/hgprof/overhead.h"
#include "tools/hgprof/table.h"
#include "train/config/model_options.h"
#include "train/run/trace_file.h"

namespace hg::prof {
namespace {

using Json = nlohmann::ordered_json;
using energy::Ledger;
using energy::LedgerRow;

// In the order of the steps; of many steps, of groups of them.
struct StepFigures {
  std::vector<double> uj, seconds;
};
constexpr std::int64_t kMostGroups = 100;

// Notes what each row gained since the last call.
class RowSteps {
 public:
  void note(const Ledger& ledger, std::int64_t steps) {
    const auto n = static_cast<double>(steps);
    before_.resize(ledger.rows.size());
    // A row that was not there before had nothing until now.
    rows_.resize(ledger.rows.size(), {std::vector<double>(notes_), std::vector<double>(notes_)});
    for (std::size_t i = 0; i < ledger.rows.size(); ++i) {
      const LedgerRow& now = ledger.rows[i];
      rows_[i].uj.push_back(static_cast<double>(now.energy_uj - before_[i].energy_uj) / n);
      rows_[i].seconds.push_back((now.seconds - before_[i].seconds) / n);
      before_[i] = now;
    }
    ++notes_;
  }
  std::vector<StepFigures> rows() && { return std::move(rows_); }

 private:
  std::size_t notes_ = 0;
  std::vector<LedgerRow> before_;
  std::vector<StepFigures> rows_;
};

struct Result {
  std::string config, phase;
  std::int64_t steps = 0, batch = 0;
  int threads = 0;
  Overhead overhead;
  Ledger ledger;
  std::vector<std::int64_t> step_uj;
  std::vector<double> step_s;
  // By row of the ledger: joules and time a step, so that noise can be told from change.
  std::vector<StepFigures> row_steps;

  double coverage() const {
    return ledger.seconds > 0 ? ledger.covered_seconds() / ledger.seconds : 0;
  }
};

Result run_steps(const ProfileOptions& options, const Config& config,
                 const energy::Calibration& calibration, energy::Meter& meter) {
  MeasuredStep step(config, options.phase);
  for (int warm_up = 0; warm_up < 2; ++warm_up) step();
  Result result{config.run.name,
                step.phase(),
                options.steps,
                step.batch(),
                cpu::threads(),
                {},
                {},
                {},
                {},
                {}};
  result.overhead = measure_overhead(step, meter, calibration);
  std::optional<TraceFile> trace;
  if (!options.trace.empty()) trace.emplace(options.trace, energy::ChromeTrace::kMostOps);
  energy::SessionOptions session_options;
  session_options.calibration = calibration;
  session_options.sink = trace ? &trace->trace() : nullptr;
  energy::Session session(meter, session_options);
  const std::int64_t group = (options.steps + kMostGroups - 1) / kMostGroups;
  RowSteps row_steps;
  energy::EnergyTotal before = session.cut();
  for (std::int64_t s = 0; s < options.steps; ++s) {
    step();
    const energy::EnergyTotal now = session.cut();
    result.step_uj.push_back(now.energy_uj - before.energy_uj);
    result.step_s.push_back(static_cast<double>(now.time_ns - before.time_ns) * 1e-9);
    before = now;
    if ((s + 1) % group == 0) row_steps.note(session.ledger(), group);
  }
  result.row_steps = std::move(row_steps).rows();
  result.ledger = session.stop();
  result.row_steps.resize(result.ledger.rows.size());  // of none, for rows that came after the last
  if (trace) trace->commit();
  return result;
}

Json row_json(const LedgerRow& r, const StepFigures& steps) {
  return {{"phase", r.label.phase},
          {"layer", r.label.layer},
          {"op", r.label.op},
          {"calls", r.calls},
          {"seconds", r.seconds},
          {"flops", r.flops},
          {"flops_matmul", r.flops_mm},
          {"bytes", r.bytes},
          {"energy_uj", r.energy_uj},
          {"static_uj", r.static_uj},
          {"kind", energy::to_string(r.kind)},
          {"low_uj", r.low_uj},
          {"high_uj", r.high_uj},
          {"steps_uj", steps.uj},
          {"steps_s", steps.seconds}};
}

Json to_json(const Result& r) {
  const Ledger& l = r.ledger;
  const LedgerRow sum = energy::sum_of(l.rows);
  Json domains = Json::object(), ops = Json::array();
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (l.domain_uj[d]) domains[energy::name_of_domain(d)] = *l.domain_uj[d];
  for (std::size_t i = 0; i < l.rows.size(); ++i)
    if (l.rows[i].is_op()) ops.push_back(row_json(l.rows[i], r.row_steps[i]));
  return {{"config", r.config},
          {"phase", r.phase},
          {"steps", r.steps},
          {"batch_size", r.batch},
          {"threads", r.threads},
          {"meter", {{"source", l.source}, {"kind", energy::to_string(l.kind)}, {"name", l.meter}}},
          {"profile", l.calibration},
          {"total",
           {{"energy_uj", l.energy_uj},
            {"low_uj", l.low_uj},
            {"high_uj", l.high_uj},
            {"domains_uj", domains},
            {"seconds", l.seconds},
            {"flops", sum.flops},
            {"flops_matmul", sum.flops_mm}}},
          {"steps_uj", r.step_uj},
          {"steps_s", r.step_s},
          {"ops", ops},
          {"unattributed_uj", l.rows[energy::kUnattributed].energy_uj},
          {"unattributed_steps_uj", r.row_steps[energy::kUnattributed].uj},
          {"profiler_uj", l.rows[energy::kProfiler].energy_uj},
          {"profiler_steps_uj", r.row_steps[energy::kProfiler].uj},
          {"coverage", r.coverage()},
          {"overhead",
           {{"pairs", r.overhead.pairs},
            {"percent", r.overhead.time.percent},
            {"low", r.overhead.time.low},
            {"high", r.overhead.time.high},
            {"cpu_percent", r.overhead.cpu_time.percent},
            {"cpu_low", r.overhead.cpu_time.low},
            {"cpu_high", r.overhead.cpu_time.high}}}};
}

LedgerRow total_of(const Ledger& l) {
  LedgerRow all = energy::sum_of(l.rows);
  all.low_uj = l.low_uj;
  all.high_uj = l.high_uj;
  all.seconds = l.seconds;
  return all;
}

std::string provenance(const Result& r) {
  const Ledger& l = r.ledger;
  return fmt::format(
      "{}: {}, {} steps of {} images, {} threads\n"
      "energy: {} by {} ({}); shared out by profile \"{}\"\n"
      "ops cover {:.1f} % of the time\n"
      "profiling costs, of a step's time: {}; of its thread time: {}; {} pairs of steps without "
      "and with it\n",
      r.config, r.phase, r.steps, r.batch, r.threads, energy::to_string(l.kind), l.meter, l.source,
      l.calibration, 100 * r.coverage(), text_of(r.overhead.time), text_of(r.overhead.cpu_time),
      r.overhead.pairs);
}

void print(const Result& r, By by, Sort sort) {
  const Ledger& l = r.ledger;
  TextTable text = table(l.rows, by, sort, l.energy_uj);
  for (const auto& [label, row] :
       {std::pair{"unattributed", energy::kUnattributed}, std::pair{"profiler", energy::kProfiler}})
    add_line(text, label, l.rows[row], l.energy_uj);
  add_line(text, "total", total_of(l), l.energy_uj);
  fmt::print("{}", text.text(columns_of(stdout)));
  print_folded(stdout, provenance(r));
}

}  // namespace

int profile_command(const ProfileOptions& options) {
  const By by = by_of(options.by);
  const Sort sort = sort_of(options.sort);
  const Config config = options.load();
  const energy::Calibration calibration = energy::load_calibration(options.profile);
  // Found out now if one of them cannot be written.
  std::optional<AtomicFile> csv, html;
  if (!options.csv.empty()) csv.emplace(options.csv);
  if (!options.html.empty()) html.emplace(options.html);
  options.tell_device(config);
  const energy::MeterChoice choice =
      energy::open_meter(energy::MeterSetup::from_environment(device_of(config.run)));
  const Result result = run_steps(options, config, calibration, *choice.meter);
  if (csv) {
    csv->write(energy::ledger_csv(result.ledger.rows));
    csv->commit();
  }
  if (html) {
    html->write(page("hgprof " + result.config, provenance(result), result.ledger, result.steps));
    html->commit();
  }
  if (options.json)
    fmt::print("{}\n", to_json(result).dump());
  else
    print(result, by, sort);
  return 0;
}

}  // namespace hg::prof
