// Runs on several ranks and on one alone, which must come to the same bits.
#pragma once

#include "energy/books/ledger.h"
#include "tensor/base/csv.h"
#include "tests/support/resume.h"
#include "tests/train/ranks/mpirun.h"
#include "tests/train/uneven_lanes.h"

namespace hg::testing {

struct Runs {
  explicit Runs(const std::string& phases = "", const std::string& program = hgtrain_path())
      : program(program) {
    put(config, kUnevenLanes + phases);
  }

  std::string at(const std::string& name) const { return folder / name; }
  Arguments train(const std::string& name, const Arguments& more = {}, int threads = 1) const {
    return Arguments{"train", config, "--out", at(name), "--threads", std::to_string(threads)} +
           more;
  }
  std::string alone(const std::string& name, const Arguments& more = {}) const {
    ChildOptions options;
    options.program = program;
    const Outcome outcome = hgtrain(train(name, more) + Arguments{"--quiet"}, options);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return at(name);
  }
  std::string shared(int ranks, const std::string& name, const Arguments& more = {},
                     int threads = 1) const {
    const Outcome outcome =
        hgtrain(on_ranks(ranks, train(name, more, threads) + Arguments{"--quiet"}, program),
                under_mpirun());
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return at(name);
  }
  void check_same(const Arguments& more = {}, const std::vector<int>& sizes = {2, 3}) const;

  const std::string program;
  const MpiRoot root;
  TempFolder folder;
  const std::string config = folder / "config.toml";
};

// Ranks add the halves of a batch in their exchange, not in the optimizer's ops, and on GPUs each
// updates all weights.
inline std::vector<std::vector<std::string>> figures_of(const std::string& run) {
  std::vector<CsvRow> rows = timeless_metrics(run);
  for (CsvRow& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      if (rows[0][c] == "flops" && &row != &rows[0]) row[c] = "";
  return rows;
}

inline void check_same_bits(const std::string& run, const std::string& whole) {
  CHECK(contents_of(run + "/model.safetensors") == contents_of(whole + "/model.safetensors"));
  CHECK(tensors_in(run + "/state.safetensors") == tensors_in(whole + "/state.safetensors"));
  CHECK(figures_of(run) == figures_of(whole));
  CHECK(files_in(run) == files_in(whole));
}

inline void Runs::check_same(const Arguments& more, const std::vector<int>& sizes) const {
  const std::string one = alone("1", more);
  for (const int ranks : sizes) {
    INFO(ranks << " ranks");
    check_same_bits(shared(ranks, std::to_string(ranks), more, 4 - ranks), one);
  }
}

inline std::vector<energy::LedgerRow> ledger_in(const std::string& run) {
  return energy::parse_ledger_csv(contents_of(run + "/ledger.csv"), "ledger.csv");
}

}  // namespace hg::testing
