// hgprof diff: what changed between two profiles, op by op, for one step.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "energy/books/labels.h"
#include "tensor/base/columns.h"
#include "tensor/base/json_value.h"
#include "tensor/base/usage_error.h"
#include "tools/hgprof/commands.h"
#include "train/statistics/sample.h"

namespace hg::prof {
namespace {

using Json = nlohmann::ordered_json;
using energy::RowLabel;

// Ops below this share of a step's joules are not watched: one that doubles hardly matters.
constexpr double kMatters = 0.01;

constexpr double kTail = 0.05;           // of the steps, on either side of their noise
constexpr std::size_t kFewestSteps = 6;  // to say anything of it

// Of one step. What two profiles' noise has in common is no change.
struct Noisy {
  double value = 0;  // the median of the steps
  // Where 90 % of the steps lie. Load on the machine changes slowly, so steps of one run are alike
  // and an interval of their median would be too narrow for another run. None: too few steps.
  std::optional<statistics::Interval> noise = statistics::Interval{0, 0};
};

struct RowFigures {
  Noisy uj, seconds;  // nothing, exactly, for a row that one of the profiles lacks
  double flops = 0;   // exact
};

struct Profile {
  std::map<RowLabel, RowFigures> rows;
  RowFigures total;
};

struct Change {
  RowLabel label;
  RowFigures a, b;
};

bool within_noise(const Noisy& a, const Noisy& b) {
  return !a.noise || !b.noise || (a.noise->low <= b.noise->high && b.noise->low <= a.noise->high);
}

// From the list of the steps' figures; without one, as in profiles of earlier versions,
// `otherwise`.
Noisy noisy(const JsonValue& json, const std::string& list, const Noisy& otherwise) {
  if (!json.has(list)) return otherwise;
  std::vector<double> steps;
  for (const JsonValue& step : json[list].items()) steps.push_back(step.number());
  if (steps.empty()) return otherwise;
  std::sort(steps.begin(), steps.end());
  Noisy figure{statistics::median(steps), std::nullopt};
  if (steps.size() >= kFewestSteps)
    figure.noise = statistics::Interval{statistics::quantile_sorted(steps, kTail),
                                        statistics::quantile_sorted(steps, 1 - kTail)};
  return figure;
}

RowFigures read_row(const JsonValue& op, double steps) {
  const auto of_step = [&](const char* key) { return op[key].number() / steps; };
  RowFigures f;
  f.uj = noisy(op, "steps_uj",
               {of_step("energy_uj"), statistics::Interval{of_step("low_uj"), of_step("high_uj")}});
  f.seconds = noisy(op, "steps_s", {of_step("seconds"), std::nullopt});
  f.flops = of_step("flops");
  return f;
}

void add(Noisy& sum, const Noisy& more) {
  sum.value += more.value;
  if (!sum.noise || !more.noise)
    sum.noise.reset();
  else
    sum.noise = {sum.noise->low + more.noise->low, sum.noise->high + more.noise->high};
}

Profile read_profile(const std::string& path) {
  const JsonValue json = JsonValue::read(path);
  for (const char* key : {"ops", "total"})
    usage_require(json.has(key), path, "is no profile of hgprof --json: \"{}\" is missing", key);
  const double steps = json.number_if_any("steps").value_or(1);
  usage_require(steps > 0, path, "\"steps\": expected a positive number, got {}", steps);
  Profile profile;
  Noisy sum;
  for (const JsonValue& op : json["ops"].items()) {
    const RowFigures f = read_row(op, steps);
    profile.rows[{op["phase"].text(), op["layer"].text(), op["op"].text()}] = f;
    profile.total.flops += f.flops;
    add(sum, f.uj);
  }
  for (const std::string key : {"unattributed", "profiler"}) {
    const double uj = json[key + "_uj"].number() / steps;
    RowFigures f;
    f.uj = noisy(json, key + "_steps_uj", {uj, statistics::Interval{uj, uj}});
    profile.rows[{key, "", key}] = f;
    add(sum, f.uj);
  }
  profile.total.uj = noisy(json, "steps_uj", sum);
  profile.total.seconds =
      noisy(json, "steps_s", {json["total"]["seconds"].number() / steps, std::nullopt});
  return profile;
}

// What changed beyond noise first, the most joules first.
std::vector<Change> changes_of(const Profile& a, const Profile& b) {
  std::map<RowLabel, Change> all;
  for (const auto& [label, figures] : a.rows) all[label] = {label, figures, {}};
  for (const auto& [label, figures] : b.rows) {
    all[label].label = label;
    all[label].b = figures;
  }
  std::vector<Change> changes;
  for (const auto& [label, change] : all) changes.push_back(change);
  const auto order = [](const Change& c) {
    return std::pair{within_noise(c.a.uj, c.b.uj), -std::abs(c.b.uj.value - c.a.uj.value)};
  };
  std::stable_sort(changes.begin(), changes.end(),
                   [&](const Change& x, const Change& y) { return order(x) < order(y); });
  return changes;
}

// Infinite for what was not there before.
double percent(double a, double b) {
  if (a == b) return 0;
  return a > 0 ? 100 * (b / a - 1) : INFINITY;
}

std::string percent_text(double a, double b) {
  const double p = percent(a, b);
  return std::isfinite(p) ? fmt::format("{:+.1f}%", p) : "new";
}

bool is_op(const RowLabel& label) {
  return label.phase != "unattributed" && label.phase != "profiler";
}

std::string name_of(const RowLabel& l) {
  if (!is_op(l)) return l.op;
  return fmt::format("{} {}{}{}", l.phase, l.layer, l.layer.empty() ? "" : ".", l.op);
}

std::string percent_text(const Noisy& a, const Noisy& b) {
  return within_noise(a, b) ? "~" : percent_text(a.value, b.value);
}

// What grew by more than allowed, and by more than noise: the step as a whole, or an op that
// matters.
std::vector<std::string> culprits(const std::vector<Change>& changes, const Profile& a,
                                  const Profile& b, double allowed) {
  std::vector<std::string> found;
  const auto judge = [&](const std::string& name, const Noisy& before, const Noisy& after) {
    if (!within_noise(before, after) && percent(before.value, after.value) > allowed)
      found.push_back(fmt::format("{} {}", name, percent_text(before, after)));
  };
  const auto share = [](const Noisy& part, const Noisy& whole) {
    return part.value / std::max(1.0, whole.value);
  };
  judge("total", a.total.uj, b.total.uj);
  for (const Change& c : changes)
    if (is_op(c.label) &&
        std::max(share(c.a.uj, a.total.uj), share(c.b.uj, b.total.uj)) >= kMatters)
      judge(name_of(c.label), c.a.uj, c.b.uj);
  return found;
}

std::string spread_text(const Noisy& uj) {
  return uj.noise ? fmt::format("+-{:.4f}", (uj.noise->high - uj.noise->low) / 2 * 1e-3) : "+-?";
}

void add_change(TextTable& table, const std::string& name, const RowFigures& a,
                const RowFigures& b) {
  table.add({name, fmt::format("{:.4f}", a.uj.value * 1e-3), spread_text(a.uj),
             fmt::format("{:.4f}", b.uj.value * 1e-3), spread_text(b.uj), percent_text(a.uj, b.uj),
             fmt::format("{:.3f}", a.seconds.value * 1e3),
             fmt::format("{:.3f}", b.seconds.value * 1e3), percent_text(a.seconds, b.seconds),
             percent_text(a.flops, b.flops)});
}

void print(const std::vector<Change>& changes, const Profile& a, const Profile& b) {
  TextTable table({"of one step, medians", "mJ A", "", "mJ B", "", "change", "ms A", "ms B",
                   "change", "FLOPs"});
  for (const Change& c : changes) add_change(table, name_of(c.label), c.a, c.b);
  add_change(table, "total", a.total, b.total);
  fmt::print("{}", table.text(columns_of(stdout)));
  print_folded(stdout,
               "+- half of what 90 % of the steps span; ~ within noise: these spans of A and B "
               "overlap, or steps are too few to tell; FLOPs are exact\n");
}

Json change_json(double a, double b) {
  const double p = percent(a, b);
  return {{"a", a}, {"b", b}, {"percent", std::isfinite(p) ? Json(p) : Json(nullptr)}};
}

Json change_json(const Noisy& a, const Noisy& b) {
  Json json = change_json(a.value, b.value);
  for (const auto& [name, side] : {std::pair{"a_range", &a}, {"b_range", &b}})
    json[name] = side->noise ? Json{side->noise->low, side->noise->high} : Json(nullptr);
  json["within_noise"] = within_noise(a, b);
  return json;
}

Json to_json(const std::vector<Change>& changes, const Profile& a, const Profile& b,
             const std::vector<std::string>& above) {
  Json ops = Json::array();
  for (const Change& c : changes)
    ops.push_back({{"phase", c.label.phase},
                   {"layer", c.label.layer},
                   {"op", c.label.op},
                   {"energy_uj", change_json(c.a.uj, c.b.uj)},
                   {"seconds", change_json(c.a.seconds, c.b.seconds)},
                   {"flops", change_json(c.a.flops, c.b.flops)}});
  return {{"total",
           {{"energy_uj", change_json(a.total.uj, b.total.uj)},
            {"seconds", change_json(a.total.seconds, b.total.seconds)},
            {"flops", change_json(a.total.flops, b.total.flops)}}},
          {"ops", ops},
          {"above", above}};
}

}  // namespace

int diff_command(const DiffOptions& options) {
  const Profile a = read_profile(options.a), b = read_profile(options.b);
  for (const auto& [path, profile] : {std::pair{&options.a, &a}, {&options.b, &b}})
    usage_require(!options.fail_above || profile->total.uj.noise, *path,
                  "has too few steps to tell change from noise, --fail-above expects {} or more",
                  kFewestSteps);
  const std::vector<Change> changes = changes_of(a, b);
  std::vector<std::string> above;
  if (options.fail_above) above = culprits(changes, a, b, *options.fail_above);
  if (options.json)
    fmt::print("{}\n", to_json(changes, a, b, above).dump());
  else
    print(changes, a, b);
  if (above.empty()) return 0;
  fmt::print(stderr, "hgprof: joules grew by more than {} % and more than noise: {}\n",
             *options.fail_above, fmt::join(above, ", "));
  return 1;
}

}  // namespace hg::prof
