// hgprof attention: the cores of attention variants by sequence length, one head, one image.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "energy/meters/choice.h"
#include "tensor/base/columns.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tools/hgprof/attention_case.h"
#include "tools/hgprof/commands.h"
#include "train/config/variants.h"
#include "train/store/model.h"

namespace hg::prof {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRoundSeconds = 0.05;
constexpr double kUsualRate = 3e10;  // FLOP/s, assumed for a variant that was not timed yet
constexpr Pass kPasses[] = {Pass::forward, Pass::training};
constexpr const char* kPassNames[] = {"forward", "training"};

struct PassFigures {
  Cost cost;
  std::uint64_t bytes = 0;
  double seconds = INFINITY, joules = INFINITY;  // the least of the rounds
  energy::Kind kind = energy::Kind::unavailable;
  double spent = 0;
};

struct LengthFigures {
  std::int64_t tokens = 0;
  std::string skipped;  // why; empty: it ran
  PassFigures passes[2];
};

struct Curve {
  AttentionVariant variant;
  nn::AttentionOptions options;
  std::vector<LengthFigures> lengths;

  // The longest that ran before `at`, or null.
  const LengthFigures* before(std::size_t at) const {
    while (at-- > 0)
      if (lengths[at].skipped.empty()) return &lengths[at];
    return nullptr;
  }
};

Curve curve_of(const AttentionVariant& variant, const AttentionBenchOptions& o) {
  std::vector<std::string> settings{"model.heads=1", fmt::format("model.dim_head={}", o.dim),
                                    fmt::format("model.emb_size={}", o.dim)};
  settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
  const Config config = parse_config("", variant.label, settings);
  Curve curve{variant, vit_options(config).attention, {}};
  curve.options.heads = config.model.heads;
  curve.options.dim_head = config.model.dim_head;
  curve.options.width = config.model.emb_size;
  curve.options.qkv_bias = config.model.qkv_bias;
  return curve;
}

CaseOptions case_of(const Curve& curve, std::int64_t tokens, const AttentionBenchOptions& o) {
  CaseOptions options{curve.options, o.pruned, static_cast<std::uint64_t>(o.seed)};
  options.attention.tokens = tokens;
  return options;
}

// Bytes that a layer of so many tokens will need: parameters and their gradients, and the rest
// extrapolated from the previous length. Choosing pairs takes a prior, an importance, an index and
// a mark for each pair.
double bytes_foreseen(const Curve& curve, const CaseOptions& options) {
  const auto tokens = static_cast<double>(options.attention.tokens);
  if (nn::attention_traits(curve.options).pruned)
    return tokens * tokens * static_cast<double>(curve.options.heads) * (4 + 8 + 8 + 1 + 8);
  const AttentionCase hollow(options, true);
  double bytes = 2 * sizeof(float) * static_cast<double>(hollow.parameters());
  if (const LengthFigures* last = curve.before(curve.lengths.size())) {
    const double factor = tokens / static_cast<double>(last->tokens);
    bytes += static_cast<double>(last->passes[1].bytes) *
             (nn::attention_traits(curve.options).quadratic ? factor * factor : factor);
  }
  return bytes;
}

double seconds_foreseen(const Curve& curve, const CaseOptions& options) {
  const double flops =
      static_cast<double>(core_cost(AttentionCase(options, true), Pass::training).flops());
  const LengthFigures* last = curve.before(curve.lengths.size());
  if (!last) return flops / kUsualRate;
  const PassFigures& known = last->passes[1];
  return flops * known.seconds / static_cast<double>(known.cost.flops());
}

// Why it should be skipped; empty: it should not.
std::string reason_to_skip(const Curve& curve, const CaseOptions& options,
                           const AttentionBenchOptions& o) {
  if (nn::attention_traits(curve.options).pruned &&
      options.attention.tokens > PairSupport::kMostTokens)
    return fmt::format("pruned pairs are limited to {} tokens", PairSupport::kMostTokens);
  const double bytes = bytes_foreseen(curve, options);
  if (bytes > o.gigabytes * 1e9)
    return fmt::format("would need about {:.1f} GB (--memory {})", bytes * 1e-9, o.gigabytes);
  const double seconds = seconds_foreseen(curve, options);
  if (seconds > o.seconds)
    return fmt::format("a call would take about {:.1f} s (--seconds {})", seconds, o.seconds);
  return "";
}

struct Running {
  LengthFigures* figures;
  std::unique_ptr<AttentionCase> layer;
};

// Slow ones, which noise moves least, get fewer rounds.
void measure_round(const Running& running, energy::Meter& meter, const AttentionBenchOptions& o) {
  for (std::size_t p = 0; p < 2; ++p) {
    PassFigures& f = running.figures->passes[p];
    if (f.spent > o.seconds) continue;
    const CoreFigures core = measure_core(*running.layer, kPasses[p], meter, kRoundSeconds);
    f.spent += std::max(core.seconds, kRoundSeconds);
    f.seconds = std::min(f.seconds, core.seconds);
    f.joules = std::min(f.joules, core.joules);
    f.kind = core.kind;
  }
}

// All variants at one length, in turn, so that a busy machine hits all of them.
void measure_length(std::vector<Curve>& curves, std::int64_t tokens, energy::Meter& meter,
                    const AttentionBenchOptions& o) {
  std::vector<Running> all;
  for (Curve& curve : curves) {
    const CaseOptions options = case_of(curve, tokens, o);
    const std::string reason = reason_to_skip(curve, options, o);
    LengthFigures& figures = curve.lengths.emplace_back(LengthFigures{tokens, reason, {}});
    if (!reason.empty()) continue;
    all.push_back({&figures, std::make_unique<AttentionCase>(options)});
    for (std::size_t p = 0; p < 2; ++p) {
      figures.passes[p].cost = core_cost(*all.back().layer, kPasses[p]);
      figures.passes[p].bytes = peak_bytes(*all.back().layer, kPasses[p]);
    }
  }
  for (std::int64_t round = 0; round < o.rounds; ++round)
    for (const Running& running : all) measure_round(running, meter, o);
}

// Growth over the previous length: as a factor, and as a power of the ratio of lengths.
struct Growth {
  double seconds, bytes, seconds_exponent, bytes_exponent;
};
Growth growth(const LengthFigures& from, const LengthFigures& to, std::size_t pass) {
  const PassFigures &a = from.passes[pass], &b = to.passes[pass];
  const double seconds = b.seconds / a.seconds;
  const double bytes = static_cast<double>(b.bytes) / static_cast<double>(a.bytes);
  const double lengths =
      std::log(static_cast<double>(to.tokens) / static_cast<double>(from.tokens));
  return {seconds, bytes, std::log(seconds) / lengths, std::log(bytes) / lengths};
}

Json to_json(const Curve& curve, std::size_t at) {
  const LengthFigures& figures = curve.lengths[at];
  Json out{{"tokens", figures.tokens}};
  if (!figures.skipped.empty()) {
    out["skipped"] = figures.skipped;
    return out;
  }
  const LengthFigures* last = curve.before(at);
  for (std::size_t p = 0; p < 2; ++p) {
    const PassFigures& f = figures.passes[p];
    Json& pass = out[kPassNames[p]];
    pass = {{"flops", f.cost.flops()},
            {"flops_matmul", f.cost.flops_mm},
            {"seconds", f.seconds},
            {"energy_j", f.joules},
            {"energy_kind", energy::to_string(f.kind)},
            {"peak_bytes", f.bytes},
            {"growth", nullptr}};
    if (!last) continue;
    const Growth g = growth(*last, figures, p);
    pass["growth"] = {{"from_tokens", last->tokens},
                      {"seconds", g.seconds},
                      {"peak_bytes", g.bytes},
                      {"seconds_exponent", g.seconds_exponent},
                      {"peak_bytes_exponent", g.bytes_exponent}};
  }
  return out;
}

std::string times(double factor) { return fmt::format("x{:.2f}", factor); }

std::string row_text(const Curve& curve, std::size_t i) {
  const LengthFigures& figures = curve.lengths[i];
  std::string text = fmt::format("{:<22} {:>7}", i == 0 ? curve.variant.label : "", figures.tokens);
  if (!figures.skipped.empty()) return text + "  left out: " + figures.skipped;
  const LengthFigures* last = curve.before(i);
  for (std::size_t p = 0; p < 2; ++p) {
    const PassFigures& f = figures.passes[p];
    const auto g = last ? std::optional(growth(*last, figures, p)) : std::nullopt;
    text += fmt::format("  | {:>9.4f} {:>10.3f} {:>7} {:>10.2f} {:>8.2f} {:>7}",
                        static_cast<double>(f.cost.flops()) * 1e-9, f.seconds * 1e3,
                        g ? times(g->seconds) : "", f.joules * 1e3,
                        static_cast<double>(f.bytes) * 1e-6, g ? times(g->bytes) : "");
  }
  return text;
}

// In one line, or where the terminal is narrow each pass in a line of its own.
void print_passes(std::string line) {
  const std::size_t columns = columns_of(stdout);
  constexpr std::string_view kPass = "  | ", kOwnLine = "\n    | ";
  if (columns > 0 && width_of(line) > columns)
    for (std::size_t at = 0; (at = line.find(kPass, at)) != std::string::npos;
         at += kOwnLine.size())
      line.replace(at, kPass.size(), kOwnLine);
  fmt::print("{}\n", line);
}

// Between the last two lengths that ran, where constant costs matter least.
void print_exponents(const Curve& curve) {
  const LengthFigures* to = curve.before(curve.lengths.size());
  const LengthFigures* from =
      to ? curve.before(static_cast<std::size_t>(to - curve.lengths.data())) : nullptr;
  if (!from) return;
  const Growth f = growth(*from, *to, 0), t = growth(*from, *to, 1);
  const std::string line = fmt::format(
      "{:<22} {:>6} to {:<6} time N^{:.2f}, with backward N^{:.2f}; memory N^{:.2f}, N^{:.2f}\n",
      curve.variant.label, from->tokens, to->tokens, f.seconds_exponent, t.seconds_exponent,
      f.bytes_exponent, t.bytes_exponent);
  print_folded(stdout, line);
}

void print(const std::vector<Curve>& curves, const AttentionBenchOptions& o,
           const energy::Meter& meter) {
  constexpr int kPass = 56;
  print_passes(fmt::format("{:<30}  | {:<{}}  | {}", "", "forward", kPass, "forward and backward"));
  std::string head = fmt::format("{:<22} {:>7}", "core", "N");
  for (int p = 0; p < 2; ++p)
    head += fmt::format("  | {:>9} {:>10} {:>7} {:>10} {:>8} {:>7}", "GFLOP", "ms", "growth", "mJ",
                        "MB", "growth");
  print_passes(head);
  for (const Curve& curve : curves)
    for (std::size_t i = 0; i < curve.lengths.size(); ++i) print_passes(row_text(curve, i));
  fmt::print("\n");
  for (const Curve& curve : curves) print_exponents(curve);
  const std::string facts = fmt::format(
      "\none image, heads of {}, {} threads; ms and mJ: the core without its projections, the "
      "least of {} rounds; MB: the whole layer, by the engine's allocator\n"
      "energy: the meter's ({} by {}, {}), shared out by profile \"default\"; fiak_pruned lacks "
      "{:g} % of its pairs\n",
      o.dim, cpu::threads(), o.rounds, energy::to_string(meter.kind()), meter.name(),
      meter.source(), 100 * o.pruned);
  print_folded(stdout, facts);
}

// All that work with one head, and kerformer also without its gates, which are quadratic.
std::string all_variants() {
  std::string all;
  for (const std::string& name : nn::attention_names()) {
    nn::AttentionOptions options;
    options.variant = name;
    if (nn::attention_traits(options).least_heads == 1) all += name + ",";
  }
  return all + "kerformer:se=false";
}

}  // namespace

int attention_command(const AttentionBenchOptions& options) {
  AttentionBenchOptions o = options;
  std::sort(o.lengths.begin(), o.lengths.end());
  o.lengths.erase(std::unique(o.lengths.begin(), o.lengths.end()), o.lengths.end());
  cpu::set_threads(static_cast<int>(o.threads));
  std::vector<Curve> curves;
  if (o.variants.empty()) o.variants = all_variants();
  for (const AttentionVariant& variant : parse_variants(o.variants, "--variants"))
    curves.push_back(curve_of(variant, o));
  const energy::MeterChoice choice = energy::open_meter();
  for (const std::int64_t tokens : o.lengths) measure_length(curves, tokens, *choice.meter, o);
  if (!o.json) {
    print(curves, o, *choice.meter);
    return 0;
  }
  Json variants = Json::array();
  for (const Curve& curve : curves) {
    Json lengths = Json::array();
    for (std::size_t i = 0; i < curve.lengths.size(); ++i) lengths.push_back(to_json(curve, i));
    variants.push_back({{"variant", curve.variant.label}, {"lengths", lengths}});
  }
  fmt::print("{}\n", Json{{"dim", o.dim},
                          {"threads", cpu::threads()},
                          {"rounds", o.rounds},
                          {"pruned", o.pruned},
                          {"meter",
                           {{"source", choice.meter->source()},
                            {"kind", energy::to_string(choice.meter->kind())},
                            {"name", choice.meter->name()}}},
                          {"variants", variants}}
                         .dump());
  return 0;
}

}  // namespace hg::prof
