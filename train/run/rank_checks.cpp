#include "train/run/rank_checks.h"

#include <algorithm>
#include <fstream>

#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"
#include "tensor/cuda_device.h"
#include "tensor/cuda_peers.h"
#include "tensor/transfer.h"
#include "train/config/model_options.h"
#include "train/phases/step_cost.h"

namespace hg {
namespace {

// FNV-1a, eight bytes at a time.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (; bytes.size() >= sizeof hash_; bytes.remove_prefix(sizeof hash_)) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data(), sizeof word);
      mix(word);
    }
    for (const char c : bytes) mix(static_cast<unsigned char>(c));
    mix(0xFF);  // its end
  }
  template <class T>
  void value(const T& value) {
    add({reinterpret_cast<const char*>(&value), sizeof value});
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  void mix(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001B3u, hash_ ^= hash_ >> 29; }
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

std::string fingerprint_of_file(const std::string& path) {
  Hash hash;
  hash.add(read_text(path));
  return hash.text();
}

// Libraries choose among their kernels by these.
std::string cpu_features() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  return "";
}

void add_data(const Dataset& set, Hash& hash) {
  constexpr std::int64_t kImages = 16;  // looked at
  hash.value(set.size());
  for (const std::string& name : set.class_names()) hash.add(name);
  for (std::int64_t i = 0; i < set.size(); ++i) hash.value(set.label(i));
  Image image;
  for (std::int64_t i = 0; i < std::min(kImages, set.size()); ++i) {
    set.get(i * set.size() / kImages, image);
    hash.add({reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()});
  }
}

std::string fingerprint_of(const PhaseData& data) {
  Hash hash;
  for (const auto& of_phase : data) {
    add_data(*of_phase->train, hash);
    add_data(*of_phase->test, hash);
  }
  return hash.text();
}

// One for each rank, all of a kind: libraries choose among their kernels by it.
void check_gpus(Ranks& ranks) {
  const cuda::GpuInUse own = cuda::gpu_in_use();
  check_same(ranks, "kind of GPU", cuda::device_facts().name);
  const std::vector<std::string> all = ranks.gather(std::string_view(own.uuid));
  for (auto at = all.begin(); at != all.end(); ++at) {
    const auto before = std::find(all.begin(), at, *at);
    usage_require(before == at, "run.device",
                  "expected a GPU for each rank: {} and {} share one, where ranks see {}",
                  ranks.name_of(static_cast<int>(before - all.begin())),
                  ranks.name_of(static_cast<int>(at - all.begin())), own.visible);
  }
}

}  // namespace

void check_lanes(const Config& config) {
  const int size = ranks().size();
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    const std::optional<std::int64_t> lanes = lanes_of_step(config, i);
    usage_require(!lanes || *lanes >= size, "run.lanes",
                  "{}: a batch of phase {} has {} lanes for {} ranks: expected {} or more, and a "
                  "train.batch_size of as many images (other lanes give other bits)",
                  config.run.name, i, *lanes, size, size);
  }
}

void check_same(Ranks& ranks, std::string_view what, const std::string& text) {
  const std::vector<std::string> all = ranks.gather(std::string_view(text));
  for (int r = 1; r < ranks.size(); ++r)
    usage_require(all[static_cast<std::size_t>(r)] == all[0], ranks.name_of(r),
                  "expected the {} of {}, got another", what, ranks.name_of(0));
}

std::string fingerprint_of(const NamedTensors& tensors) {
  if (ranks().alone()) return "";
  Hash hash;
  for (const auto& [name, tensor] : tensors) {
    hash.add(name);
    const Tensor here = on_host(tensor);
    hash.add({static_cast<const char*>(here.raw()), here.bytes()});
  }
  return hash.text();
}

void link_gpus(const Config& config) {
  if (device_of(config.run) == Device::cuda) link_gpus(ranks());
}

void check_ranks(const Config& config) {
  Ranks& all = ranks();
  if (all.alone()) return;
  all.set_timeout(config.run.rank_timeout);
  const Device device = device_of(config.run);
  check_same(all, "program", fingerprint_of_file("/proc/self/exe"));
  check_same(all, "CPU features", cpu_features());
  check_same(all, "configuration", to_toml(config));
  check_same(all, "device", std::string(to_string(device)));
  check_lanes(config);
  if (device != Device::cpu) check_gpus(all);
}

void check_ranks(const Config& config, const PhaseData& data) {
  check_ranks(config);
  if (!ranks().alone()) check_same(ranks(), "images", fingerprint_of(data));
}

}  // namespace hg
