// Runs a program, hgtrain unless told otherwise, as users do: a process of its own with files for
// its output, and small settings that train in a blink.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace hg::testing {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

struct Outcome {
  int code = -1;  // exit code; 128 + signal where a signal ended it
  std::string out, err;
};

std::string hgtrain_path();

struct ChildOptions {
  std::size_t largest_file = 0;  // bytes; 0: no limit. Stands for a full disk
  std::string data;              // HG_DATA; empty: a folder without data sets
  std::string out;               // where standard output goes; empty: into Outcome
  std::string program = hgtrain_path();
  bool in_step = false;  // with await_line(): no more than two lines of stderr ahead of it
};

// A running program; killed with the object.
class Child {
 public:
  explicit Child(const Arguments& arguments, const ChildOptions& options = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  bool running();
  Outcome wait();

  // These wait for an event, and are false where the program ended before it.
  bool await(const std::function<bool()>& event);
  bool await_line(const std::string& part);  // on stderr; needs in_step
  bool await_cpu_time(std::chrono::microseconds time);

 private:
  bool read_more();  // of stderr

  TempFolder folder_;  // of stdout and stderr
  pid_t pid_;
  int status_ = -1;
  bool ended_ = false;
  int pipe_ = -1;  // from its stderr
  std::string err_;
  std::size_t seen_ = 0;  // of err_, by await_line
};

inline Outcome hgtrain(const Arguments& arguments, const ChildOptions& options = {}) {
  return Child(arguments, options).wait();
}
Outcome hgprof(const Arguments& arguments);

// "train shapes" on few images, in 4 epochs of 4 steps, with `more` arguments.
Arguments tiny_train(const std::string& out, const Arguments& more = {});
// The model of tiny_train as --set arguments.
Arguments tiny_model();
// What a run folder holds before its first checkpoint, sorted.
extern const std::vector<std::string> kEarlyFiles;
Arguments operator+(Arguments a, const Arguments& b);
// --set for each, with `prefix` in front of its key.
Arguments set(const std::vector<std::string>& settings, const std::string& prefix = "");

bool exists(const std::string& path);
std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> files_in(
    const std::string& folder);  // names, sorted, without the hidden ones

// Exit code and exactly one line on stderr that begins with the program's name and holds every
// part.
void check_refused(const Outcome& outcome, int code, const std::vector<std::string>& parts,
                   const std::string& program = "hgtrain");

// In a run's ledger; of every op of the layer, unless told otherwise.
std::uint64_t flops_of(const std::string& run, const std::string& phase, const std::string& layer,
                       const std::string& op = "");

Json summary_of(const std::string& run);
// Of metrics.csv, one value an epoch.
std::vector<std::string> column_of(const std::string& run, const std::string& name);

// metrics.csv without the columns that hold times and energies.
std::vector<std::vector<std::string>> timeless_metrics(const std::string& run);

}  // namespace hg::testing
