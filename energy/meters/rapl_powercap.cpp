#include "energy/meters/rapl_powercap.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "energy/meters/channel_meter.h"
#include "energy/meters/powercap_zones.h"
#include "energy/meters/rapl_limits.h"
#include "energy/meters/sysfs.h"

namespace hg::energy {
namespace {

// The file of one counter. When the driver is reloaded, an open file fails or never changes again,
// so a counter that has not moved for a while is opened anew; RAPL's move every millisecond.
class CounterFile {
 public:
  explicit CounterFile(const PowercapZone& zone)
      : path_(zone.counter_path()), name_path_(zone.folder + "/name"), name_(zone.name) {
    file_.open(path_.c_str());
  }

  RawRead read(std::int64_t now_ns) {
    RawRead raw = read_open_file(now_ns);
    const bool moved = raw.status == ReadStatus::good && raw.value_uj != value_uj_;
    if (!moved && now_ns - moved_ns_ >= kStuckNs) {
      moved_ns_ = now_ns;
      if (!reopen()) file_.close();
      raw = read_open_file(now_ns);
    }
    if (moved) moved_ns_ = now_ns;
    if (raw.status == ReadStatus::good) value_uj_ = raw.value_uj;
    return raw;
  }

 private:
  static constexpr std::int64_t kStuckNs = 20'000'000;

  RawRead read_open_file(std::int64_t now_ns) const {
    char text[64];
    const long n = file_.read(text, sizeof text);
    if (n < 0) return {now_ns, ReadStatus::failed, 0};
    const auto value = parse_number<std::uint64_t>(trimmed({text, static_cast<std::size_t>(n)}));
    return {now_ns, value ? ReadStatus::good : ReadStatus::garbage, value.value_or(0)};
  }

  // Whether the zone is there again, and still the same one.
  bool reopen() { return read_small_file(name_path_) == name_ && file_.open(path_.c_str()) == 0; }

  std::string path_, name_path_, name_;
  OpenFile file_;
  std::uint64_t value_uj_ = 0;
  std::int64_t moved_ns_ = 0;
};

constexpr const char* kLoadDriver = "sudo modprobe intel_rapl_msr";

std::string left_out_note(const PowercapTree& tree) {
  if (tree.left_out.empty()) return "";
  return fmt::format("; not counted: {}", fmt::join(tree.left_out, ", "));
}

// Why the zone cannot be read; empty: it can. A counter that is just being written is read again.
std::string fault_of(const PowercapZone& zone) {
  if (zone.error != 0) return std::strerror(zone.error);
  for (int tries = 0; tries < 3; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (read_number(zone.counter_path())) return "";
  }
  const std::string text = read_small_file(zone.counter_path()).value_or("");
  const bool plain =
      text.size() <= 20 && text.find_first_not_of("0123456789-+.abcdefx ") == text.npos;
  return plain && !text.empty() ? fmt::format("holds '{}', expected microjoules", text)
                                : "holds no number, expected microjoules";
}

Opened unreadable(const PowercapZone& zone, const std::string& fault, const std::string& root) {
  const std::string reason = fmt::format("{}: {}: {}", zone.label, zone.counter_path(), fault);
  if (zone.error != EACCES && zone.error != EPERM)
    return refused(kRaplPowercap, Verdict::rejected, reason, "");
  const bool flat = zone.folder.rfind('/') == root.size();
  const std::string files = flat ? root + "/*/energy_uj" : "-R " + root;
  return refused(kRaplPowercap, Verdict::rejected,
                 reason + " (kernels since late 2020 let root alone read it)",
                 fmt::format("sudo chgrp $(id -gn) {0} && sudo chmod g+r {0}  # for your group; "
                             "a+r instead: {1}",
                             files, kOpenToAll));
}

std::string describe(const PowercapTree& tree) {
  std::vector<std::string> labels;
  bool has_package = false;
  for (const PowercapZone& zone : tree.counted) {
    labels.push_back(zone.label + (zone.largest_uj ? "" : " (range unknown)"));
    has_package |= zone.domain == Domain::package;
  }
  return fmt::format("{}{}{}", fmt::join(labels, ", "),
                     has_package ? "" : " without its package: the CPU is not counted",
                     left_out_note(tree));
}

}  // namespace

Opened open_powercap(std::string root) {
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  PowercapTree tree = find_powercap_zones(root);
  if (!tree.exists)
    return refused(
        kRaplPowercap, Verdict::absent,
        root + " is not there: no driver of RAPL, or a virtual machine whose host gives it none",
        kLoadDriver);
  if (tree.counted.empty() && tree.left_out.empty())
    return refused(kRaplPowercap, Verdict::absent, root + " holds no zones", kLoadDriver);
  if (tree.counted.empty())
    return refused(kRaplPowercap, Verdict::rejected, "no package and no dram" + left_out_note(tree),
                   "");

  for (std::size_t i = 0; i < tree.counted.size();) {
    const PowercapZone zone = tree.counted[i++];
    const std::string fault = fault_of(zone);
    if (fault.empty()) continue;
    // Without this zone the sum of its domain would be incomplete.
    std::erase_if(tree.counted, [&](const PowercapZone& z) { return z.domain == zone.domain; });
    if (zone.domain == Domain::package || tree.counted.empty())
      return unreadable(zone, fault, root);
    tree.left_out.push_back(fmt::format("{} ({})", zone.label, fault));
    i = 0;
  }
  const std::string source = describe(tree);
  auto meter = std::make_unique<ChannelMeter>(kRaplPowercap, source);
  for (const PowercapZone& zone : tree.counted)
    meter->add(
        zone.domain,
        CounterSpec{zone.label, zone.largest_uj, rapl_max_power(zone.domain), kRaplSlack,
                    kLongestStill},
        [file = std::make_shared<CounterFile>(zone)](std::int64_t now) { return file->read(now); });
  return {{kRaplPowercap, Verdict::used, source, ""}, std::move(meter)};
}

}  // namespace hg::energy
