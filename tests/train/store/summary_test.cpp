#include "train/store/summary.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {
namespace {

using Json = nlohmann::ordered_json;

RunSummary finished_run() {
  RunSummary s;
  s.name = "a run";
  s.status = kFinished;
  s.micro_f1 = 0.75;
  s.energy_j = {30, 20, 45};
  s.energy_kind = "modelled";
  s.flops = 12345678901234567890u / 2;
  s.images = 3000;
  s.prediction = {5, {24, 20, 31}};
  s.domain_j = {20, 10, std::nullopt};
  s.figures = {{"mean_iou", 0.5}};
  return s;
}

}  // namespace

TEST_CASE("a summary reads back, and says how right its prediction was") {
  const TempFolder folder;
  const RunSummary s = finished_run();
  put(folder / "summary.json", to_json(s, 2));
  const Json json = Json::parse(to_json(s));
  CHECK(json["accuracy"].is_null());
  CHECK(json["flops"] == s.flops);
  CHECK(json["energy_by_domain_j"] == Json{{"package", 20.0}, {"dram", 10.0}});
  CHECK(json["prediction"]["error_percent"].get<double>() == doctest::Approx(-20));
  CHECK(json["prediction"]["inside"] == true);
  CHECK(json["select"].is_null());
  CHECK(json["mean_iou"] == 0.5);
  RunSummary back;
  read_summary(folder / "summary.json", back);
  back.domain_j = s.domain_j;
  back.figures = s.figures;
  CHECK(to_json(back) == to_json(s));
}

TEST_CASE("a run that was held up says so, and how much") {
  RunSummary s = finished_run();
  CHECK(s.cpu_share_note() == "");
  CHECK(Json::parse(to_json(s))["cpu_share"].is_null());
  s.cpu_share = 0.9;
  CHECK(s.cpu_share_note() == "");
  s.cpu_share = 0.625;
  CHECK(Json::parse(to_json(s))["cpu_share"] == 0.625);
  CHECK(s.cpu_share_note().starts_with("got 62 % of the cores it asked for"));
  CHECK(s.cpu_share_note().ends_with("modelled energy leaves the waiting out"));
  s.energy_kind = "measured";
  CHECK(s.cpu_share_note().ends_with("measured energy holds that work, too"));
}

TEST_CASE("what a summary lacks stays as it was, and what is damaged is refused") {
  const TempFolder folder;
  const std::string path = folder / "summary.json";
  RunSummary s = finished_run();
  put(path, "{\"status\": \"interrupted\", \"micro_f1\": null}");
  read_summary(path, s);
  CHECK(s.status == "interrupted");
  CHECK(s.name == "a run");
  CHECK(s.micro_f1 == 0.75);
  put(path, "{\"energy_j\": \"much\"}");
  CHECK(message_of<UsageError>([&] { read_summary(path, s); }) ==
        path + ": energy_j: expected a number, got \"much\"");
  put(path, "{\"flops\": -1}");
  CHECK(message_of<UsageError>([&] { read_summary(path, s); }) ==
        path + ": flops: expected a whole number of at least 0, got -1");
}

}  // namespace hg::testing
