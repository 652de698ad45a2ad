// hgprof diff: what changed between two profiles, op by op, for one step.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "energy/books/labels.h"
#include "tensor/base/json_value.h"
#include "tensor/base/usage_error.h"
#include "tools/hgprof/commands.h"

namespace hg::prof {
namespace {

using Json = nlohmann::ordered_json;
using energy::RowLabel;

// Ops below this share of a step's joules are not watched: one that doubles hardly matters.
constexpr double kMatters = 0.01;

struct RowFigures {
  double uj = 0, seconds = 0, flops = 0, low_uj = 0, high_uj = 0;
};

struct Profile {
  std::map<RowLabel, RowFigures> rows;  // of one step
  RowFigures total;
};

struct Change {
  RowLabel label;
  RowFigures a, b;
};

Profile read_profile(const std::string& path) {
  const JsonValue json = JsonValue::read(path);
  for (const char* key : {"ops", "total"})
    usage_require(json.has(key), path, "is no profile of hgprof --json: \"{}\" is missing", key);
  const double steps = json.number_if_any("steps").value_or(1);
  usage_require(steps > 0, path, "\"steps\": expected a positive number, got {}", steps);
  Profile profile;
  for (const JsonValue& op : json["ops"].items()) {
    const auto of_step = [&](const char* key) { return op[key].number() / steps; };
    const RowFigures f{of_step("energy_uj"), of_step("seconds"), of_step("flops"),
                       of_step("low_uj"), of_step("high_uj")};
    profile.rows[{op["phase"].text(), op["layer"].text(), op["op"].text()}] = f;
    profile.total.flops += f.flops;
    profile.total.uj += f.uj;
  }
  for (const std::string key : {"unattributed", "profiler"}) {
    RowFigures f;
    f.uj = json[key + "_uj"].number() / steps;
    profile.rows[{key, "", key}] = f;
    profile.total.uj += f.uj;
  }
  profile.total.seconds = json["total"]["seconds"].number() / steps;
  return profile;
}

std::vector<Change> changes_of(const Profile& a, const Profile& b) {
  std::map<RowLabel, Change> all;
  for (const auto& [label, figures] : a.rows) all[label] = {label, figures, {}};
  for (const auto& [label, figures] : b.rows) {
    all[label].label = label;
    all[label].b = figures;
  }
  std::vector<Change> changes;
  for (const auto& [label, change] : all) changes.push_back(change);
  std::stable_sort(changes.begin(), changes.end(), [](const Change& x, const Change& y) {
    return std::abs(x.b.uj - x.a.uj) > std::abs(y.b.uj - y.a.uj);
  });
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

// What grew by more than allowed: the step as a whole, or an op that matters.
std::vector<std::string> culprits(const std::vector<Change>& changes, const Profile& a,
                                  const Profile& b, double allowed) {
  std::vector<std::string> found;
  const auto judge = [&](const std::string& name, double before, double after) {
    if (percent(before, after) > allowed)
      found.push_back(fmt::format("{} {}", name, percent_text(before, after)));
  };
  judge("total", a.total.uj, b.total.uj);
  for (const Change& c : changes)
    if (is_op(c.label) && std::max(c.a.uj / std::max(1.0, a.total.uj),
                                   c.b.uj / std::max(1.0, b.total.uj)) >= kMatters)
      judge(name_of(c.label), c.a.uj, c.b.uj);
  return found;
}

void print_line(const std::string& name, const RowFigures& a, const RowFigures& b,
                const char* note) {
  fmt::print("{:<44} {:>11.4f} {:>11.4f} {:>8} {:>10.3f} {:>10.3f} {:>8} {:>8} {}\n", name,
             a.uj * 1e-3, b.uj * 1e-3, percent_text(a.uj, b.uj), a.seconds * 1e3, b.seconds * 1e3,
             percent_text(a.seconds, b.seconds), percent_text(a.flops, b.flops), note);
}

void print(const std::vector<Change>& changes, const Profile& a, const Profile& b) {
  fmt::print("{:<44} {:>11} {:>11} {:>8} {:>10} {:>10} {:>8} {:>8}\n", "of one step", "mJ A",
             "mJ B", "change", "ms A", "ms B", "change", "FLOPs");
  for (const Change& c : changes) {
    const bool apart = c.a.high_uj < c.b.low_uj || c.b.high_uj < c.a.low_uj;
    print_line(name_of(c.label), c.a, c.b, apart && is_op(c.label) ? "*" : "");
  }
  print_line("total", a.total, b.total, "");
  fmt::print("* the 95 % intervals of the joules don't overlap\n");
}

Json change_json(double a, double b) {
  const double p = percent(a, b);
  return {{"a", a}, {"b", b}, {"percent", std::isfinite(p) ? Json(p) : Json(nullptr)}};
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
  const std::vector<Change> changes = changes_of(a, b);
  std::vector<std::string> above;
  if (options.fail_above) above = culprits(changes, a, b, *options.fail_above);
  if (options.json)
    fmt::print("{}\n", to_json(changes, a, b, above).dump());
  else
    print(changes, a, b);
  if (above.empty()) return 0;
  fmt::print(stderr, "hgprof: joules grew by more than {} %: {}\n", *options.fail_above,
             fmt::join(above, ", "));
  return 1;
}

}  // namespace hg::prof
