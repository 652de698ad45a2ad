// The GPU's meter in commands, on the emulated device and a stand-in for NVML with two GPUs, of
// which the second is in use: times are the emulator's, but all that is read, fitted and written is
// as on a real one.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/environment.h"
#include "tests/support/temp_folder.h"
#include "tools/hgprof/commands.h"
#include "train/run/run.h"

namespace hg {
namespace {

using testing::contents_of;
using testing::Environment;
using testing::TempFolder;

TEST_CASE("calibrate fits the GPU that is in use by its own meter") {
  const Environment library("HG_NVML_LIB", HG_NVML_STUB), mode("HG_STUB_NVML", "steady"),
      root("HG_POWERCAP_ROOT", "/nowhere");
  const TempFolder folder;
  prof::CalibrateOptions options;
  options.out = folder / "profile.json";
  options.device = "cuda";
  options.seconds = 0.01;
  options.enlarge = 1;
  REQUIRE(prof::calibrate_command(options) == 0);
  const auto profile = nlohmann::json::parse(contents_of(options.out));
  CHECK(profile["meter"].get<std::string>().find("gpu 0000:02:00.0: energy counter") !=
        std::string::npos);
  REQUIRE(profile["domains"].size() == 1);  // the CPU is not measured
  // 80 W, whatever runs.
  const auto& gpu = profile["domains"]["gpu"];
  CHECK(gpu["static_w"].get<double>() == doctest::Approx(80).epsilon(0.1));
  CHECK(gpu["active_w_per_thread"].get<double>() < 8);
  CHECK(profile["part_times"]["ps_per_flop_mm"].get<double>() > 0);
}

TEST_CASE("calibrate refuses a GPU that others use") {
  const Environment library("HG_NVML_LIB", HG_NVML_STUB), mode("HG_STUB_NVML", "crowded");
  const TempFolder folder;
  prof::CalibrateOptions options;
  options.out = folder / "profile.json";
  options.device = "cuda";
  CHECK(testing::message_of<Error>([&] {
          prof::calibrate_command(options);
        }).find("no meter measures this GPU alone") != std::string::npos);
  CHECK(!std::filesystem::exists(options.out));
}

TEST_CASE("a run on the GPU books what this GPU draws, and says who else used it") {
  const Environment library("HG_NVML_LIB", HG_NVML_STUB), mode("HG_STUB_NVML", "crowded"),
      root("HG_POWERCAP_ROOT", "/nowhere");
  const Config config = parse_config(R"(
[run]
device = "cuda"
[data]
name = "shapes"
train_limit = 16
test_limit = 8
[model]
img_size = 16
in_channels = 3
num_classes = 3
patch_size = 8
emb_size = 8
depth = 1
heads = 2
[train]
batch_size = 8
epochs = 1
)",
                                     "tiny.toml", {});
  const TempFolder folder;
  const std::string out = folder / "run";
  std::filesystem::create_directories(out);
  const RunSummary summary =
      train_run(config, open_run(config), {out, false, false, ProgressMode::quiet}).summary;
  CHECK(summary.energy_meter.find("nvml") != std::string::npos);
  CHECK(summary.energy_source.find(
            "gpu 0000:02:00.0: energy counter; shared with 1 other process") != std::string::npos);
  CHECK(summary.energy_source.find("0000:01:00.0") == std::string::npos);
  CHECK(summary.meter_notes.find("gpu 0000:02:00.0 shared with other processes") !=
        std::string::npos);
  REQUIRE(summary.domain_j[2]);
  // 20 J a read: the first GPU would have counted 50.
  CHECK(std::abs(std::remainder(*summary.domain_j[2], 20)) < 1e-6);
  CHECK(*summary.domain_j[2] > 0);
  CHECK(summary.energy_j.low <= summary.energy_j.value - *summary.domain_j[2]);
}

TEST_CASE("ops measures single ops on the GPU") {
  const Environment library("HG_NVML_LIB", HG_NVML_STUB), mode("HG_STUB_NVML", "steady");
  prof::OpsOptions options;
  options.filter = "softmax";
  options.device = "cuda";
  options.bytes = 1 << 12;
  options.json = true;
  CHECK(prof::ops_command(options) == 0);
  options.device = "tpu";
  CHECK(testing::message_of<Error>([&] { prof::ops_command(options); }) ==
        "--device: is tpu, expected cpu, cuda or auto");
}

}  // namespace
}  // namespace hg
