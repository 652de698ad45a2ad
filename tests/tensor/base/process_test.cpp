#include "tensor/base/process.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/temp_folder.h"

namespace process_test {

using namespace hg;
using hg::testing::TempFolder;

// Threads as /proc shows them.
class Tasks {
 public:
  void set(const std::string& thread, const std::string& schedstat) {
    std::filesystem::create_directories(folder_ / thread);
    hg::testing::put(folder_ / (thread + "/schedstat"), schedstat);
  }
  void end(const std::string& thread) { std::filesystem::remove_all(folder_ / thread); }
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

TEST_CASE("the share of cores is the time threads ran of the time they wanted to") {
  Tasks tasks;
  tasks.set("1", "5000000000 9000000000 7\n");  // before it began
  CpuClaim claim(tasks.path());
  CHECK_FALSE(cpu_share(claim.run_s(), claim.wait_s()));
  tasks.set("1", "7000000000 9500000000 9\n");
  tasks.set("2", "1000000000 500000000 2\n");  // begun meanwhile
  claim.sample();
  CHECK(claim.run_s() == doctest::Approx(3));
  CHECK(claim.wait_s() == doctest::Approx(1));
  CHECK(*cpu_share(claim.run_s(), claim.wait_s()) == doctest::Approx(0.75));
  tasks.end("2");
  tasks.set("1", "8000000000 9500000000 9\n");
  claim.sample();
  CHECK(claim.run_s() == doctest::Approx(4));  // what a thread did that ended stays counted
  CHECK(claim.wait_s() == doctest::Approx(1));
}

TEST_CASE("a kernel that does not tell gives no share") {
  CpuClaim nowhere("/nowhere/task");
  nowhere.sample();
  CHECK_FALSE(cpu_share(nowhere.run_s(), nowhere.wait_s()));
  Tasks tasks;
  tasks.set("1", "");
  CpuClaim empty(tasks.path());
  tasks.set("1", "what\n");
  empty.sample();
  CHECK_FALSE(cpu_share(empty.run_s(), empty.wait_s()));
}

}  // namespace process_test
