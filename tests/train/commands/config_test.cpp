// hgtrain config: every key, and the values of a configuration.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/support/program.h"

namespace {

using namespace hg::testing;

// The names in the table of keys.
std::multiset<std::string> names_in_table() {
  return {
#define HG_SECTION(Type)
#define HG_KEY(type, name, initial, check, meaning) #name,
#define HG_END
#include "train/config/keys.inc"
  };
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::map<std::string, Json> keys_of(const Arguments& arguments) {
  const Outcome done = hgtrain(Arguments{"config", "--json"} + arguments);
  INFO(done.err);
  REQUIRE(done.code == 0);
  std::map<std::string, Json> keys;
  const Json all = Json::parse(done.out);
  for (const Json& key : all["keys"]) keys[key["key"]] = key;
  return keys;
}

}  // namespace

TEST_CASE("config lists every key with type, default, choices and meaning") {
  const auto keys = keys_of({});
  std::multiset<std::string> listed;
  const std::string text = hgtrain({"config"}).out;
  for (const auto& [name, key] : keys) {
    INFO(name);
    CHECK(key.size() == 6);
    CHECK(key["meaning"] != "");
    CHECK(key["type"] != "");
    if (key["type"] == "bool") CHECK(key["default"].is_boolean());
    if (key["type"] == "float") CHECK(key["default"].is_number_float());
    if (key["type"] == "string") CHECK(key["default"].is_string());
    const bool of_phase = name.starts_with("phase.N.data.") || name.starts_with("phase.N.train.");
    if (of_phase) {
      CHECK(key["default"] == keys.at(name.substr(8))["default"]);
    } else {
      listed.insert(last_part(name));
      CHECK(text.find("\n  " + last_part(name) + " ") != std::string::npos);
    }
  }
  CHECK(listed == names_in_table());

  const Json& rate = keys.at("train.learning_rate");
  CHECK(rate["type"] == "float");
  CHECK(rate["default"] == 0.001);
  CHECK(rate["choices"] == Json::array());
  CHECK(rate["of"] == Json::array());
  CHECK(keys.at("model.in_channels")["default"] == nullptr);
  CHECK(keys.at("train.optimizer")["choices"] == Json{"adamw", "sgd", "muon"});
  CHECK(keys.at("select.heuristic")["choices"] ==
        Json{"none", "contrast", "variance", "entropy", "random"});
  CHECK(keys.at("select.top_k")["default"] == 0.7);
  CHECK(keys.at("run.device")["choices"] == Json{"auto", "cpu", "cuda"});
  CHECK(keys.at("attention.components")["of"] == Json{"mgk", "mlk"});
  CHECK(keys.at("phase.N.mask_ratio")["of"] == Json{"pretrain"});
  for (const std::string& line : lines_of(text)) CHECK(line.size() <= 100);
}

TEST_CASE("config shows the values of a configuration, with all that follows from others") {
  const TempFolder folder;
  const std::string file = folder / "mine.toml";
  put(file,
      "[model]\nattention = \"mgk\"\n[select]\ntop_k = 9\n[[phase]]\nkind = \"pretrain\"\n"
      "[[phase]]\n[phase.train]\nepochs = 7\n");
  const Arguments given{file, "--set", "train.epochs=3"};
  const auto keys = keys_of(given);
  const auto value = [&](const std::string& key) { return keys.at(key)["value"]; };
  CHECK(value("run.name") == "mine");
  CHECK(value("model.num_classes") == 10);
  CHECK(value("model.dim_head") == 16);
  CHECK(value("model.attention") == "mgk");
  CHECK(value("select.top_k") == 9);
  CHECK(value("attention.mode") == "soft");
  CHECK(value("train.epochs") == 3);
  CHECK(value("phase.0.kind") == "pretrain");
  CHECK(value("phase.0.train.epochs") == 3);
  CHECK(value("phase.1.train.epochs") == 7);
  CHECK(keys.at("phase.1.train.epochs")["default"] == 3);

  const std::string text = hgtrain(Arguments{"config"} + given).out;
  for (const char* part : {"epochs = 3 ", "(int; default 5)", "[phase.1.train]", "epochs = 7 "})
    CHECK(text.find(part) != std::string::npos);
  CHECK(text.find("[phase.0.train]") == std::string::npos);
  CHECK(text.find("kerformer)") == std::string::npos);  // options of another attention

  check_refused(hgtrain({"config", folder / "none.toml"}), 2, {"none.toml"});
  check_refused(hgtrain({"config", "--set", "train.epochs=3"}), 2, {"--set", "CONFIG"});
}
