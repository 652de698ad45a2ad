// Files that grow by lines: what is whole is read, what a resumed run does again is dropped.
#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"
#include "train/store/launches.h"
#include "train/store/power_csv.h"
#include "train/store/steps_csv.h"

namespace {

using namespace hg;
using namespace hg::testing;

TEST_CASE("steps go on behind the state's last one, whatever a kill left") {
  const TempFolder folder;
  const std::string path = folder / "steps.csv";
  {
    StepsLog log(path, {});
    for (std::int64_t phase : {0, 1})
      for (std::int64_t step = 1; step <= 3; ++step)
        log.add({phase, 1, step, 0.1 * static_cast<double>(step), 1e-3});
    log.save();
  }
  const std::string whole = contents_of(path);
  CHECK(whole.starts_with("phase,epoch,step,loss,learning_rate\n0,1,1,0.1,0.001\n"));
  put(path, whole + "1,1,4,0.");  // cut short
  CHECK(read_steps(path).size() == 6);
  {
    StepsLog log(path, StepsLog::Place{1, 2});
    log.add({1, 1, 3, 0.1 * 3, 1e-3});
    log.save();
  }
  CHECK(contents_of(path) == whole);
  { StepsLog log(path, StepsLog::Place{1, 3}); }
  CHECK(contents_of(path) == whole);
  { StepsLog log(path, {}); }  // begins anew
  CHECK(read_steps(path).empty());
  CHECK(read_steps(folder / "none").empty());
  put(path, "a,b\n");
  CHECK(message_of<UsageError>([&] { read_steps(path); }).find("expected the columns phase") !=
        std::string::npos);
}

TEST_CASE("a folder that is not there cannot be written to") {
  CHECK(message_of<Error>([] { StepsLog log("/nowhere/steps.csv", {}); }).starts_with("/nowhere"));
}

TEST_CASE("power has rows twice a second at first, and later a thousandth of the time apart") {
  const TempFolder folder;
  const std::string path = folder / "power.csv";
  {
    PowerLog log(path, 0);
    for (int i = 1; i <= 100; ++i) CHECK(log.note({0.1 * i, 1.0 * i}) == "");
  }
  const std::vector<PowerRow> rows = read_power(path);
  CHECK(rows.size() >= 20);
  CHECK(rows.size() <= 25);
  PowerLog log(path, rows[4].seconds);  // a run resumed from there
  CHECK(read_power(path).size() == 5);
  CHECK(log.note({10000, 100}) == "");
  CHECK(log.note({10009, 101}) == "");
  CHECK(log.note({10011, 102}) == "");
  CHECK(read_power(path).size() == 7);
}

TEST_CASE("a run keeps how it was started, each time") {
  const TempFolder folder;
  const std::string path = folder / "launches.json";
  CHECK(read_launches(path).empty());
  Launch launch = this_launch();
  CHECK(launch.command != "");
  CHECK(launch.host != "");
  launch.command = "hgtrain 'a \"b\"'";
  note_launch(path, launch, false);
  note_launch(path, this_launch(), true);
  const std::vector<Launch> both = read_launches(path);
  REQUIRE(both.size() == 2);
  CHECK(both[0].command == launch.command);
  CHECK(both[1].started >= both[0].started);
  note_launch(path, launch, false);
  CHECK(read_launches(path).size() == 1);
}

}  // namespace
