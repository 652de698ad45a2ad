#include "train/store/metrics_csv.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {
namespace {

constexpr const char* kHeader =
    "phase,epoch,step,train_loss,test_loss,accuracy,micro_f1,macro_f1,images_per_s,"
    "tokens_per_image,flops,energy_j,co2_g,seconds";

EpochRow row(std::int64_t epoch) {
  EpochRow r;
  r.phase = "supervised";
  r.epoch = epoch;
  r.step = 4 * epoch;
  r.train_loss = 1.0 / static_cast<double>(epoch);
  r.flops = 1000;
  r.energy_j = 2.5;
  r.seconds = 0.125;
  return r;
}

}  // namespace

TEST_CASE("metrics.csv is whole after each row, and goes on without doubles") {
  const TempFolder folder;
  const std::string path = folder / "metrics.csv";
  MetricsLog log(path, false);
  CHECK(contents_of(path) == std::string(kHeader) + "\n");
  for (const std::int64_t epoch : {1, 2, 3}) log.append(row(epoch));
  const std::string all = contents_of(path);
  CHECK(all.find("\nsupervised,3,12,0.3333333333333333,,,,,,,1000,2.5,0,0.125\n") !=
        std::string::npos);

  MetricsLog resumed(path, false, 2);  // the state is of epoch 2
  CHECK(read_metrics(path).size() == 2);
  CHECK(resumed.rows().back().train_loss == 0.5);
  resumed.append(row(3));
  CHECK(contents_of(path) == all);

  CHECK(message_of<UsageError>([&] { MetricsLog(path, false, 4); }) ==
        path + ": expected at least 4 rows, got 3");
  CHECK_THROWS_AS(MetricsLog(folder / "absent", false, 0), UsageError);
  put(path, "epoch,loss\n1,2\n");
  CHECK_THROWS_AS(MetricsLog(path, false, 1), UsageError);
}

TEST_CASE("columns on sparsity are there where the loss has such a term") {
  const TempFolder folder;
  const std::string path = folder / "metrics.csv";
  MetricsLog log(path, true);
  EpochRow sparse = row(1);
  sparse.sparsity = 0.5;
  log.append(sparse);
  CHECK(contents_of(path).starts_with(std::string(kHeader) +
                                      ",sparsity,small_weights,effective_support\n"));
  CHECK(read_metrics(path)[0].sparsity == 0.5);
  CHECK_FALSE(read_metrics(path)[0].small_weights);
}

}  // namespace hg::testing
