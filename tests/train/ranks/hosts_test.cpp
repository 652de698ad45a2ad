// Two hosts on one machine: network namespaces with names of their own.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "energy/books/ledger.h"
#include "tests/train/ranks/mpirun.h"

namespace {

using namespace hg;
using namespace hg::testing;

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// A second host, joined to this one by a virtual cable; gone with the object.
class SecondHost {
 public:
  explicit SecondHost(const TempFolder& folder) : agent_(folder / "agent") {
    made_ = succeeds("ip netns add " + name_) &&
            succeeds("ip link add " + near_ + " type veth peer name " + far_) &&
            succeeds("ip link set " + far_ + " netns " + name_) &&
            succeeds("ip addr add 10.213.77.1/24 dev " + near_) &&
            succeeds("ip link set " + near_ + " up") && in("ip link set lo up") &&
            in("ip addr add 10.213.77.2/24 dev " + far_) && in("ip link set " + far_ + " up") &&
            succeeds("unshare -u true");
    // What mpirun uses in place of ssh: agent HOST COMMAND...
    put(agent_, "#!/bin/sh\nshift\nexec ip netns exec " + name_ +
                    " unshare -u sh -c 'hostname hg-second; exec sh -c \"$0\"' \"$*\"\n");
    std::filesystem::permissions(agent_, std::filesystem::perms::owner_all);
  }
  ~SecondHost() {
    succeeds("ip netns del " + name_);
    succeeds("ip link del " + near_);
  }
  SecondHost(const SecondHost&) = delete;
  SecondHost& operator=(const SecondHost&) = delete;

  bool made() const { return made_; }
  const std::string& agent() const { return agent_; }

 private:
  bool in(const std::string& command) const {
    return succeeds("ip netns exec " + name_ + " " + command);
  }
  const std::string id_ = std::to_string(::getpid() % 10000), name_ = "hg-second-" + id_,
                    near_ = "hga" + id_, far_ = "hgb" + id_;
  const std::string agent_;
  bool made_ = false;
};

}  // namespace

TEST_CASE("two hosts: the same bits, and a ledger by host") {
  HG_NEEDS_MPIRUN();
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root makes network namespaces");
    return;
  }
  const TempFolder folder;
  const SecondHost second(folder);
  if (!second.made()) {
    MESSAGE("skipped: no network namespaces here");
    return;
  }
  const MpiRoot root;
  const std::string one = folder / "one", two = folder / "two";
  const Arguments lanes = set({"run.lanes=4"});
  REQUIRE(hgtrain(tiny_train(one, lanes)).code == 0);
  const Arguments over_cable{"--mca",
                             "plm_rsh_agent",
                             second.agent(),
                             "--mca",
                             "btl",
                             "tcp,self",
                             "--mca",
                             "btl_tcp_if_include",
                             "10.213.77.0/24",
                             "--mca",
                             "oob_tcp_if_include",
                             "10.213.77.0/24",
                             "--host",
                             "10.213.77.1:1,10.213.77.2:1"};
  const Outcome outcome =
      hgtrain(over_cable + on_ranks(2, tiny_train(two, lanes) + Arguments{"--threads", "1"}),
              under_mpirun());
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(contents_of(two + "/model.safetensors") == contents_of(one + "/model.safetensors"));
  const Json summary = summary_of(two);
  CHECK(summary["hosts"] == 2);
  std::int64_t sum = 0, second_uj = 0;
  for (const auto& row : energy::parse_ledger_csv(contents_of(two + "/ledger.csv"), "ledger.csv")) {
    CHECK_FALSE(row.label.host.empty());
    sum += row.energy_uj;
    if (row.label.host == "hg-second") second_uj += row.energy_uj;
  }
  CHECK(second_uj > 0);
  CHECK(static_cast<double>(sum) == doctest::Approx(1e6 * summary["energy_j"].get<double>()));
  CHECK(lines_of(contents_of(two + "/emissions.csv")).size() == 2);
}
