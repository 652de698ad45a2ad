// hgtrain check-device on the CPU, and what it says of kernels that are wrong.
#include <doctest/doctest.h>

#include <atomic>
#include <set>

#include "tensor/observer.h"
#include "tensor/ops/registry.h"
#include "tests/support/program.h"
#include "train/commands/check_ops.h"
#include "train/commands/commands.h"

namespace {

using namespace hg;
using namespace hg::testing;

const Arguments kTinyOnCpu = tiny_model() + Arguments{"--device", "cpu", "--json"};

CheckDeviceOptions small_options() {
  CheckDeviceOptions options;
  options.config = "shapes";
  options.settings = {"model.img_size=16", "model.patch_size=8", "model.emb_size=8",
                      "model.depth=1",     "model.heads=2",      "train.batch_size=2"};
  options.device = "cpu";
  options.json = true;
  return options;
}

// A kernel that is wrong: changes an output of that op, of every call or of every second one.
class Wrong final : public Observer {
 public:
  Wrong(std::string op, int every) : op_(std::move(op)), every_(every) {}
  void op_end(const OpCall& call) override {
    if (call.op.name() != op_ || call.out[0].numel() == 0 || ++calls % every_ != 0) return;
    float& first = *call.out[0].data<float>();
    first += 0.01f + std::abs(first) * 0.01f;
  }
  std::atomic<int> calls{0};

 private:
  const std::string op_;
  const int every_;
};

}  // namespace

TEST_CASE("check-device holds every op and a training step to the references") {
  const Outcome outcome = hgtrain(Arguments{"check-device", "shapes"} + kTinyOnCpu);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const Json out = Json::parse(outcome.out);
  CHECK(out.size() == 3);
  CHECK(out["device"].get<std::string>().find("threads") != std::string::npos);
  CHECK(out["ok"] == true);
  std::set<std::string> checked;
  for (const Json& op : out["ops"]) {
    INFO(op.dump());
    CHECK(op.size() == 7);
    CHECK(op["ok"] == true);
    CHECK(op["same_bits"] == true);
    CHECK(op["error"].get<double>() <= op["limit"].get<double>());
    CHECK(op["microseconds"].get<double>() > 0);
    CHECK(op["shape"] != "");
    checked.insert(op["op"]);
  }
  CHECK(checked.contains("training step"));
  for (const OpInfo& info : registry())
    for (const Sample& sample : info.samples())
      CHECK(checked.contains(std::string(sample.op->name())));
}

TEST_CASE("check-device shows a table for people") {
  const Outcome outcome =
      hgtrain(Arguments{"check-device", "shapes", "--device", "cpu"} + tiny_model());
  CHECK(outcome.code == 0);
  CHECK(outcome.out.starts_with("device: "));
  CHECK(outcome.out.find("meter: ") != std::string::npos);
  CHECK(outcome.out.find("TFLOP/s") != std::string::npos);
  CHECK(outcome.out.find("adamw") != std::string::npos);
  CHECK(outcome.out.find("checks passed") != std::string::npos);
}

TEST_CASE("a kernel that is wrong fails the check") {
  for (const char* op : {"layer_norm", "linear", "softmax"}) {
    Wrong wrong(op, 1);
    const ObserverGuard guard(wrong);
    CHECK(check_device_command(small_options()) == 1);
    CHECK(wrong.calls > 0);
  }
}

TEST_CASE("a kernel that gives other bits when run again fails the check") {
  Wrong wrong("softmax", 2);
  const ObserverGuard guard(wrong);
  int failed = 0;
  for (const std::vector<OpCase>& samples : samples_of_ops(Device::cpu)) {
    if (samples[0].op->name() != "softmax") continue;
    for (const Checked& checked : check_calls(samples, Device::cpu, false)) {
      CHECK(!checked.same_bits);
      CHECK(!checked.ok());
      ++failed;
    }
  }
  CHECK(failed > 1);
}

TEST_CASE("differences are in parts of the largest value, and what is no number is worst") {
  CHECK(difference({1, 2, 3}, {1, 2, 4}) == doctest::Approx(0.25));
  CHECK(difference({1e-5}, {0}) == doctest::Approx(0.01));
  CHECK(difference({NAN, 1}, {1, 1}) == 1e300);
  CHECK(difference({INFINITY}, {INFINITY}) == 0);
  CHECK(difference({1}, {INFINITY}) == 1e300);
}
