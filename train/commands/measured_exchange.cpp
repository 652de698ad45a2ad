#include "train/commands/measured_exchange.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "tensor/base/clock.h"
#include "tensor/base/text.h"
#include "tensor/cpu/parallel.h"
#include "train/run/rank_books.h"

namespace hg {
namespace {

// This rank's work for others, while alive.
class WorkForOthers : NoCopy {
 public:
  explicit WorkForOthers(Ranks& ranks) : ranks_(ranks) {
    ranks.on_work(
        {{},
         [this](Ranks::Work work, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t sent) {
           const double seconds = seconds_between(start_ns, end_ns);
           (work == Ranks::Work::wait ? wait_s : exchange_s) += seconds;
           if (work == Ranks::Work::exchange) bytes += static_cast<double>(sent);
         }});
  }
  ~WorkForOthers() { ranks_.on_work({}); }

  double wait_s = 0, exchange_s = 0, bytes = 0;

 private:
  Ranks& ranks_;
};

double joules_of(energy::Meter& meter) {
  double joules = 0;
  for (const auto& domain : meter.read().domains)
    if (domain) joules += energy::to_joules(domain->energy).value;
  return joules;
}

// Of a message, where every rank sends one to each other.
double latency_of(Ranks& ranks) {
  constexpr int kRounds = 100;
  ranks.gather(0);
  const std::int64_t start = now_ns();
  for (int i = 0; i < kRounds; ++i) ranks.gather(i);
  return seconds_since(start) / kRounds / (ranks.size() - 1);
}

std::vector<double> timed(Measured& step, std::int64_t count) {
  std::vector<double> ms;
  for (std::int64_t s = 0; s < count; ++s) ms.push_back(step.timed_ms());
  return ms;
}

}  // namespace

double SharedSteps::step_s() const {
  return 1e-3 * std::reduce(ms.begin(), ms.end()) / static_cast<double>(ms.size());
}

SharedSteps take_steps(Measured& step, std::int64_t count) {
  Ranks& all = ranks();
  SharedSteps taken;
  if (all.alone()) {
    taken.ms = timed(step, count);
    return taken;
  }
  const bool on_cpu = step.device() == Device::cpu;
  const double latency_s = on_cpu ? latency_of(all) : 0;
  const energy::MeterChoice choice = open_rank_meter(all, step.device());
  taken.energy_kind = energy::to_string(choice.meter->kind());
  const double before = joules_of(*choice.meter);
  WorkForOthers work(all);
  taken.ms = timed(step, count);
  const double used = joules_of(*choice.meter) - before, exchange_s = work.exchange_s,
               wait_s = work.wait_s, bytes = work.bytes, steps = static_cast<double>(count);
  taken.exchange_s = all.sum(exchange_s) / steps / all.size();
  taken.wait_s = all.sum(wait_s) / steps / all.size();
  taken.joules = all.sum(used) / steps;
  if (on_cpu && exchange_s > 0) taken.network = {bytes / exchange_s, latency_s};
  return taken;
}

std::string text_of(const SharedSteps& steps, const StepForecast& predicted) {
  const Ranks& all = ranks();
  std::string text = fmt::format(
      "Measured with these {} ranks, {} host{}, {} threads each: a step takes {:.3f} ms, of it "
      "{:.3f} to exchange gradients{} and {:.3f} to wait, and {} {}; predicted: {:.3f} ms, of it "
      "{:.3f}, and {} to {}\n",
      all.size(), all.hosts(), all.hosts() == 1 ? "" : "s", cpu::threads(), 1e3 * steps.step_s(),
      1e3 * steps.exchange_s, steps.network ? "" : " (what work does not hide)", 1e3 * steps.wait_s,
      with_prefix(steps.joules, "J"), steps.energy_kind, 1e3 * predicted.step_s(),
      1e3 * predicted.exchange_s, with_prefix(predicted.joules_low, "J"),
      with_prefix(predicted.joules_high, "J"));
  if (steps.network)
    text += fmt::format("Between them: --network {:.3g},{:.3g}\n",
                        1e-9 * steps.network->bytes_per_s, 1e6 * steps.network->latency_s);
  return text;
}

nlohmann::ordered_json json_of(const SharedSteps& steps, const StepForecast& predicted) {
  const Ranks& all = ranks();
  nlohmann::ordered_json json{{"ranks", all.size()},
                              {"hosts", all.hosts()},
                              {"threads", cpu::threads()},
                              {"step_ms", 1e3 * steps.step_s()},
                              {"exchange_ms", 1e3 * steps.exchange_s},
                              {"wait_ms", 1e3 * steps.wait_s},
                              {"joules", steps.joules},
                              {"energy_kind", steps.energy_kind}};
  if (steps.network) {
    json["gb_per_s"] = 1e-9 * steps.network->bytes_per_s;
    json["latency_us"] = 1e6 * steps.network->latency_s;
  }
  json["predicted_step_ms"] = 1e3 * predicted.step_s();
  json["predicted_exchange_ms"] = 1e3 * predicted.exchange_s;
  json["predicted_joules_low"] = predicted.joules_low;
  json["predicted_joules_high"] = predicted.joules_high;
  return json;
}

}  // namespace hg
