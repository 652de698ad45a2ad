// hgprof CONFIG: where the joules of a configuration's training steps go.
#include <nlohmann/json.hpp>

#include "energy/meters/choice.h"
#include "tensor/base/files.h"
#include "tensor/cpu/parallel.h"
#include "tools/hgprof/commands.h"
#include "tools/hgprof/overhead.h"
#include "tools/hgprof/table.h"
#include "train/run/trace_file.h"

namespace hg::prof {
namespace {

using Json = nlohmann::ordered_json;
using energy::Ledger;
using energy::LedgerRow;

struct Result {
  std::string config, phase;
  std::int64_t steps = 0, batch = 0;
  int threads = 0;
  Overhead overhead;
  Ledger ledger;
  std::vector<std::int64_t> step_uj;

  double coverage() const {
    return ledger.seconds > 0 ? ledger.covered_seconds() / ledger.seconds : 0;
  }
};

Result run_steps(const ProfileOptions& options, const Config& config,
                 const energy::Calibration& calibration, energy::Meter& meter) {
  MeasuredStep step(config, options.phase);
  for (int warm_up = 0; warm_up < 2; ++warm_up) step();
  Result result{
      config.run.name, step.phase(), options.steps, step.batch(), cpu::threads(), {}, {}, {}};
  result.overhead = measure_overhead(step, meter, calibration);
  std::optional<TraceFile> trace;
  if (!options.trace.empty()) trace.emplace(options.trace, energy::ChromeTrace::kMostOps);
  energy::SessionOptions session_options;
  session_options.calibration = calibration;
  session_options.sink = trace ? &trace->trace() : nullptr;
  energy::Session session(meter, session_options);
  std::int64_t before = 0;
  for (std::int64_t s = 0; s < options.steps; ++s) {
    step();
    const std::int64_t now = session.cut().energy_uj;
    result.step_uj.push_back(now - before);
    before = now;
  }
  result.ledger = session.stop();
  if (trace) trace->commit();
  return result;
}

Json row_json(const LedgerRow& r) {
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
          {"high_uj", r.high_uj}};
}

Json to_json(const Result& r) {
  const Ledger& l = r.ledger;
  const LedgerRow sum = energy::sum_of(l.rows);
  Json domains = Json::object(), ops = Json::array();
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (l.domain_uj[d]) domains[energy::name_of_domain(d)] = *l.domain_uj[d];
  for (const LedgerRow& row : l.rows)
    if (row.is_op()) ops.push_back(row_json(row));
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
          {"ops", ops},
          {"unattributed_uj", l.rows[energy::kUnattributed].energy_uj},
          {"profiler_uj", l.rows[energy::kProfiler].energy_uj},
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

std::string total_line(const Ledger& l) {
  LedgerRow all = energy::sum_of(l.rows);
  all.low_uj = l.low_uj;
  all.high_uj = l.high_uj;
  all.seconds = l.seconds;
  return table_line("total", all, l.energy_uj);
}

std::string provenance(const Result& r) {
  const Ledger& l = r.ledger;
  const Difference &time = r.overhead.time, &cpu = r.overhead.cpu_time;
  return fmt::format(
      "{}: {}, {} steps of {} images, {} threads\n"
      "energy: {} by {} ({}); shared out by profile \"{}\"\n"
      "ops cover {:.1f} % of the time\n"
      "profiling costs {:+.2f} % of a step's time ({:+.2f} to {:+.2f}), {:+.2f} % of its thread "
      "time "
      "({:+.2f} to {:+.2f}); {} pairs of steps without and with it\n",
      r.config, r.phase, r.steps, r.batch, r.threads, energy::to_string(l.kind), l.meter, l.source,
      l.calibration, 100 * r.coverage(), time.percent, time.low, time.high, cpu.percent, cpu.low,
      cpu.high, r.overhead.pairs);
}

void print(const Result& r, By by, Sort sort) {
  const Ledger& l = r.ledger;
  fmt::print("{}", table(l.rows, by, sort, l.energy_uj));
  for (const auto& [label, row] :
       {std::pair{"unattributed", energy::kUnattributed}, std::pair{"profiler", energy::kProfiler}})
    fmt::print("{}", table_line(label, l.rows[row], l.energy_uj));
  fmt::print("{}\n{}", total_line(l), provenance(r));
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
  const energy::MeterChoice choice = energy::open_meter();
  const Result result = run_steps(options, config, calibration, *choice.meter);
  if (csv) {
    csv->write(energy::ledger_csv(result.ledger.rows));
    csv->commit();
  }
  if (html) {
    html->write(page("hgprof " + result.config, provenance(result), result.ledger));
    html->commit();
  }
  if (options.json)
    fmt::print("{}\n", to_json(result).dump());
  else
    print(result, by, sort);
  return 0;
}

}  // namespace hg::prof
