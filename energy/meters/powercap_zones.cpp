#include "energy/meters/powercap_zones.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <tuple>

#include "energy/meters/sysfs.h"

namespace hg::energy {
namespace {

namespace fs = std::filesystem;

bool all_digits(std::string_view s) {
  return !s.empty() && s.find_first_not_of("0123456789") == s.npos;
}

// "intel-rapl:0:1" -> {"intel-rapl", "0:1"}; no index: a control type.
struct ZoneId {
  std::string type, index;
  bool operator<(const ZoneId& o) const {  // intel-rapl before intel-rapl-mmio, 2 before 10
    return std::tuple(type.size(), type, index.size(), index) <
           std::tuple(o.type.size(), o.type, o.index.size(), o.index);
  }
};

ZoneId parse_id(const std::string& folder_name) {
  const std::size_t colon = folder_name.find(':');
  if (colon == folder_name.npos) return {folder_name, ""};
  return {folder_name.substr(0, colon), folder_name.substr(colon + 1)};
}

// The flat list of /sys/class/powercap holds every zone, each also nested in its parent; some
// systems show one of the two only.
void collect(const fs::path& folder, int depth, std::map<ZoneId, fs::path>& zones) {
  constexpr int kDeepest = 4;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const ZoneId id = parse_id(it->path().filename().string());
    const bool descend = !id.index.empty() || depth == 0;
    std::error_code unknown;
    if (!descend || depth >= kDeepest || !it->is_directory(unknown)) continue;
    if (!id.index.empty() && !zones.emplace(id, it->path()).second) continue;
    collect(it->path(), depth + 1, zones);
  }
}

// "package-0", "package-0-die-1"
struct PackageName {
  std::string package, die;
};
std::optional<PackageName> parse_package(std::string_view name) {
  constexpr std::string_view kPackage = "package-", kDie = "-die-";
  if (!name.starts_with(kPackage)) return std::nullopt;
  name.remove_prefix(kPackage.size());
  const std::size_t at = name.find(kDie);
  const std::string_view package = name.substr(0, at);
  const std::string_view die = at == name.npos ? "" : name.substr(at + kDie.size());
  if (!all_digits(package) || (at != name.npos && !all_digits(die))) return std::nullopt;
  return PackageName{std::string(package), std::string(die)};
}

// A zone that is counted, and the package it belongs to.
struct Part {
  ZoneId id;
  PackageName of;  // dram outside a package has its index, "#0:1", in place of the package
  PowercapZone zone;
};

class Finder {
 public:
  explicit Finder(const std::string& root) {
    std::error_code error;
    tree_.exists = fs::is_directory(root, error);
    if (tree_.exists) collect(root, 0, folders_);
    for (const auto& [id, folder] : folders_)
      names_[id] = read_small_file((folder / "name").string()).value_or("");
    for (const auto& [id, folder] : folders_) classify(id, folder.string());
  }

  PowercapTree result() {
    std::map<std::pair<Domain, std::string>, std::vector<Part*>> machine;
    for (Part& part : parts_) machine[{part.zone.domain, part.of.package}].push_back(&part);
    for (auto& [where, parts] : machine) count_once(parts);
    return std::move(tree_);
  }

 private:
  void classify(const ZoneId& id, const std::string& folder) {
    const std::string& name = names_[id];
    if (const auto package = parse_package(name))
      add(id, folder, *package, name, Domain::package);
    else if (name == "dram")
      add_dram(id, folder);
    else if (name == "core" || name == "uncore")
      leave_out(name, "inside its package");
    else if (name == "psys")
      leave_out(name, "the whole platform");
    else
      leave_out(id.type + ":" + id.index, "its name is not one of RAPL's");
  }

  void add_dram(const ZoneId& id, const std::string& folder) {
    const std::size_t colon = id.index.rfind(':');
    const auto parent = names_.find({id.type, id.index.substr(0, colon)});
    const auto package = colon == std::string::npos || parent == names_.end()
                             ? std::nullopt
                             : parse_package(parent->second);
    if (package)
      add(id, folder, *package, parent->second + " dram", Domain::dram);
    else
      add(id, folder, {"#" + id.index, ""}, "dram", Domain::dram);
  }

  void add(const ZoneId& id, const std::string& folder, PackageName of, std::string label,
           Domain domain) {
    PowercapZone zone{folder, names_[id], std::move(label), domain};
    zone.largest_uj = read_number(folder + "/max_energy_range_uj").value_or(0);
    const auto value = read_number(zone.counter_path());
    if (value && *value > zone.largest_uj) zone.largest_uj = 0;
    zone.error = OpenFile().open(zone.counter_path().c_str());
    parts_.push_back({id, std::move(of), std::move(zone)});
  }

  // Each package is counted by one control type: the first that can be read, MSR before MMIO.
  void count_once(const std::vector<Part*>& parts) {
    const auto readable = [&](const std::string& type) {
      return std::none_of(parts.begin(), parts.end(),
                          [&](const Part* p) { return p->id.type == type && p->zone.error != 0; });
    };
    std::string speaker = parts.front()->id.type;
    for (const Part* p : parts)
      if (!readable(speaker) && readable(p->id.type)) speaker = p->id.type;
    std::vector<const Part*> kept;
    for (const Part* p : parts)
      if (p->id.type != speaker)
        leave_out(fmt::format("{} in {}", p->zone.label, p->id.type), "counted in " + speaker);
      else if (is_new(*p, kept))
        kept.push_back(p);
    for (const Part* p : kept) tree_.counted.push_back(p->zone);
  }

  bool is_new(const Part& part, const std::vector<const Part*>& kept) {
    for (const Part* other : kept) {
      const bool same = other->of.die == part.of.die || other->of.die.empty();
      if (!same && !mirrors(other->zone, part.zone)) continue;
      leave_out(part.zone.label,
                same ? "listed twice" : "the same counter as " + other->zone.label);
      return false;
    }
    return true;
  }

  // AMD counts a package once, and some kernels show that counter for each die. Two are the same if
  // one, read between two reads of the other, has a value between theirs.
  static bool mirrors(const PowercapZone& a, const PowercapZone& b) {
    constexpr int kTries = 5;
    for (int i = 0; i < kTries; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto before = read_number(a.counter_path()), other = read_number(b.counter_path()),
                 after = read_number(a.counter_path());
      if (before && other && after && *before <= *other && *other <= *after) return true;
    }
    return false;
  }

  void leave_out(const std::string& what, const std::string& why) {
    const std::string line = fmt::format("{} ({})", what, why);
    if (std::find(tree_.left_out.begin(), tree_.left_out.end(), line) == tree_.left_out.end())
      tree_.left_out.push_back(line);
  }

  PowercapTree tree_;
  std::map<ZoneId, fs::path> folders_;
  std::map<ZoneId, std::string> names_;
  std::vector<Part> parts_;
};

}  // namespace

PowercapTree find_powercap_zones(const std::string& root) { return Finder(root).result(); }

}  // namespace hg::energy
