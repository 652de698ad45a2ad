// hgprof calibrate: fits this machine's energy profile from its meters; on a GPU, the GPU's as
// well.
#include "energy/meters/cpu_info.h"
#include "tensor/base/files.h"
#include "tensor/cpu/parallel.h"
#include "tools/hgprof/bench_device.h"
#include "tools/hgprof/commands.h"
#include "tools/hgprof/kernels.h"

namespace hg::prof {
namespace {

using energy::Domain;

bool measures(const energy::Meter& meter, Domain domain) {
  return meter.kind_of(domain) == energy::Kind::measured;
}

// Throws, with the reason in one line, where there is nothing to fit.
void require_measuring(const energy::MeterChoice& choice, Device device) {
  const bool on_cpu = device == Device::cpu;
  if (measures(*choice.meter, on_cpu ? Domain::package : Domain::gpu)) return;
  std::string reasons;
  for (const energy::Candidate& c : choice.candidates)
    if (c.verdict != energy::Verdict::used)
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", c.name, c.reason);
  fail("calibrate",
       "no meter measures this {} ({}); make the profile on a machine like it "
       "and give it to hgprof with --profile",
       on_cpu ? "CPU" : "GPU alone", reasons);
}

// A domain that does not follow the model is left out, unless it is the one that matters.
void fit_domain(energy::Calibration& calibration, const energy::Meter& meter, Domain domain,
                const std::vector<Measured>& all) {
  if (!measures(meter, domain)) return;
  const auto d = static_cast<std::size_t>(domain);
  std::vector<energy::BenchPoint> points;
  double seen = 0;
  for (const Measured& m : all) {
    points.push_back(m.point(d));
    seen += m.sum.uj[d];
  }
  if (seen == 0) return;  // the meter has no such domain
  try {
    calibration.domains[d] = energy::fit(points, std::string(energy::to_string(domain)));
  } catch (const Error& e) {
    if (domain != Domain::dram) throw;
    fmt::print(stderr, "{}; it is left out, and shared out as by the default profile\n", e.what());
  }
}

void print_domain(const energy::Calibration& calibration, Domain domain) {
  const auto& model = calibration.domains[static_cast<std::size_t>(domain)];
  if (!model) return;
  fmt::print(
      "{}: static {:.2f} W, {:.1f} pJ/FLOP, {:.1f} pJ/byte, {:.2f} W {}; single kernels "
      "deviate by {:.1f} %\n",
      energy::to_string(domain), model->coefficients[0], model->coefficients[1],
      model->coefficients[2], model->coefficients[3],
      domain == Domain::gpu ? "while busy" : "a busy thread", 100 * model->misfit);
}

std::string machine_name(Device device) {
  const energy::CpuInfo cpu = energy::read_cpu_info("/sys");
  return fmt::format("{}, {} threads{}", cpu.brand.empty() ? "unknown CPU" : cpu.brand,
                     cpu::threads(), device == Device::cpu ? "" : ", with a GPU");
}

}  // namespace

int calibrate_command(const CalibrateOptions& options) {
  const Device device = bench_device(options.device);
  cpu::set_threads(static_cast<int>(options.threads));
  AtomicFile file(options.out);  // found out now if it cannot be written
  const energy::MeterChoice choice = open_meter_for(device);
  energy::Meter& meter = *choice.meter;
  require_measuring(choice, device);
  energy::Calibration calibration;
  calibration.machine = machine_name(device);
  calibration.name = options.name.empty() ? calibration.machine : options.name;
  calibration.meter = meter.source();
  if (measures(meter, Domain::package)) {
    const std::vector<Measured> all = measure_cpu(meter, options.seconds);
    fit_domain(calibration, meter, Domain::package, all);
    fit_domain(calibration, meter, Domain::dram, all);
    calibration.times = part_times(all);
  }
  if (device != Device::cpu) {
    const std::vector<Measured> all = measure_gpu(meter, options.seconds, options.enlarge);
    fit_domain(calibration, meter, Domain::gpu, all);
    calibration.times = part_times(all);
  }
  file.write(to_json(calibration));
  file.commit();
  fmt::print("{}\n", options.out);
  for (const Domain domain : {Domain::package, Domain::dram, Domain::gpu})
    print_domain(calibration, domain);
  return 0;
}

}  // namespace hg::prof
