#include "tests/support/program.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "energy/books/ledger.h"
#include "tensor/base/csv.h"

namespace hg::testing {
namespace {

void redirect(const std::string& path, int to) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || ::dup2(fd, to) < 0) _exit(99);
}

void limit_files(std::size_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);  // writes past the limit fail instead
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
}

// What is written to it waits until the line before has been read: in packets, of which it holds
// one.
std::array<int, 2> pipe_of_one_line() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_DIRECT) == 0);
  REQUIRE(::fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
  return ends;
}

// Signals wait while this lives: until a new process has become the program, doctest's handlers
// would take them for a crash of the tests.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t stopping;
    sigemptyset(&stopping);
    for (const int number : {SIGINT, SIGTERM}) sigaddset(&stopping, number);
    ::sigprocmask(SIG_BLOCK, &stopping, &before_);
  }
  ~SignalsWait() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

  // In the new process: they end it from now on.
  void release_with_defaults() {
    for (const int number : {SIGINT, SIGTERM}) ::signal(number, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
};

// This process's, but for HG_DATA.
std::vector<std::string> environment_with_data(const std::string& data) {
  constexpr std::string_view kData = "HG_DATA=";
  std::vector<std::string> all;
  for (char** at = environ; *at; ++at)
    if (!std::string_view(*at).starts_with(kData)) all.emplace_back(*at);
  all.push_back(std::string(kData) + data);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that a new process needs to become the program, made before it is forked: another thread of
// the tests may be in the middle of an allocation then, which the new process would wait for
// without end.
class Launch {
 public:
  // `err`: where its stderr goes, or -1 for a file in the folder.
  Launch(const Arguments& arguments, const std::string& folder, const ChildOptions& options,
         int err)
      : out_(options.out.empty() ? folder + "/stdout" : options.out),
        err_(folder + "/stderr"),
        err_pipe_(err),
        largest_file_(options.largest_file),
        arguments_(Arguments{options.program} + arguments),
        environment_(environment_with_data(options.data.empty() ? folder : options.data)) {}

  [[noreturn]] void become() const {
    redirect(out_, STDOUT_FILENO);
    if (err_pipe_ < 0)
      redirect(err_, STDERR_FILENO);
    else if (::dup2(err_pipe_, STDERR_FILENO) < 0)
      _exit(99);
    if (largest_file_ > 0) limit_files(largest_file_);
    ::execve(argv_[0], argv_.data(), envp_.data());
    _exit(99);
  }

 private:
  const std::string out_, err_;
  const int err_pipe_;
  const std::size_t largest_file_;
  std::vector<std::string> arguments_, environment_;
  const std::vector<char*> argv_ = pointers_to(arguments_), envp_ = pointers_to(environment_);
};

std::vector<CsvRow> metrics_of(const std::string& run) {
  const std::string path = run + "/metrics.csv";
  return parse_csv(contents_of(path), path);
}

}  // namespace

std::string hgtrain_path() { return HG_TRAIN_PROGRAM; }

Child::Child(const Arguments& arguments, const ChildOptions& options) {
  std::array<int, 2> ends{-1, -1};
  if (options.in_step) ends = pipe_of_one_line();
  const Launch launch(arguments, folder_.path(), options, ends[1]);
  SignalsWait signals;
  pid_ = ::fork();
  if (pid_ == 0) {
    signals.release_with_defaults();
    launch.become();
  }
  if (options.in_step) ::close(ends[1]);
  pipe_ = ends[0];
  REQUIRE(pid_ > 0);
}

Child::~Child() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (pipe_ >= 0) ::close(pipe_);
}

void Child::signal(int number) const {
  if (!ended_) ::kill(pid_, number);
}

bool Child::running() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

Outcome Child::wait() {
  while (read_more()) {
  }
  if (!ended_) ended_ = ::waitpid(pid_, &status_, 0) == pid_;
  REQUIRE(ended_);
  return {WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_),
          contents_of(folder_ / "stdout"), pipe_ >= 0 ? err_ : contents_of(folder_ / "stderr")};
}

bool Child::await(const std::function<bool()>& event) {
  while (!event()) {
    if (!running()) return event();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

bool Child::read_more() {
  std::array<char, 4096> packet;
  const ssize_t size = pipe_ < 0 ? 0 : ::read(pipe_, packet.data(), packet.size());
  if (size > 0) err_.append(packet.data(), static_cast<std::size_t>(size));
  return size > 0;
}

bool Child::await_line(const std::string& part) {
  REQUIRE(pipe_ >= 0);
  for (;;) {
    const std::size_t end = err_.find('\n', seen_);
    if (end == std::string::npos) {
      if (!read_more()) return false;
      continue;
    }
    const std::string line = err_.substr(seen_, end - seen_);
    seen_ = end + 1;
    if (line.find(part) != std::string::npos) return true;
  }
}

bool Child::await_cpu_time(std::chrono::microseconds time) {
  clockid_t clock;
  REQUIRE(::clock_getcpuclockid(pid_, &clock) == 0);
  return await([&] {
    timespec now{};
    if (::clock_gettime(clock, &now) != 0) return false;
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) >= time;
  });
}

Outcome hgprof(const Arguments& arguments) {
  ChildOptions options;
  options.program = HG_PROF_PROGRAM;
  return hgtrain(arguments, options);
}

const std::vector<std::string> kEarlyFiles{"config.toml",   "emissions.csv", "energy.json",
                                           "launches.json", "ledger.csv",    "metrics.csv",
                                           "power.csv",     "steps.csv"};

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Arguments set(const std::vector<std::string>& settings, const std::string& prefix) {
  Arguments arguments;
  for (const std::string& s : settings) arguments.insert(arguments.end(), {"--set", prefix + s});
  return arguments;
}

Arguments tiny_model() {
  return set({"img_size=16", "emb_size=16", "depth=1", "heads=2", "patch_size=8"}, "model.");
}

Arguments tiny_train(const std::string& out, const Arguments& more) {
  return Arguments{"train", "shapes", "--out", out} + tiny_model() +
         set({"run.threads=1", "data.train_limit=64", "data.test_limit=32", "train.batch_size=16",
              "train.epochs=4"}) +
         more;
}

bool exists(const std::string& path) { return std::filesystem::exists(path); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (!entry.path().filename().string().starts_with('.'))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void check_refused(const Outcome& outcome, int code, const std::vector<std::string>& parts,
                   const std::string& program) {
  INFO(outcome.err);
  CHECK(outcome.code == code);
  CHECK(outcome.out == "");
  CHECK(lines_of(outcome.err).size() == 1);
  CHECK(outcome.err.starts_with(program + ": "));
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

Json summary_of(const std::string& run) { return Json::parse(contents_of(run + "/summary.json")); }

std::vector<std::string> column_of(const std::string& run, const std::string& name) {
  const std::vector<CsvRow> rows = metrics_of(run);
  REQUIRE(!rows.empty());
  const auto at = std::find(rows[0].begin(), rows[0].end(), name) - rows[0].begin();
  std::vector<std::string> values;
  for (std::size_t r = 1; r < rows.size(); ++r)
    values.push_back(rows[r].at(static_cast<std::size_t>(at)));
  return values;
}

std::vector<std::vector<std::string>> timeless_metrics(const std::string& run) {
  std::vector<CsvRow> rows = metrics_of(run);
  REQUIRE(!rows.empty());
  const CsvRow header = rows[0];
  for (CsvRow& row : rows) {
    REQUIRE(row.size() == header.size());
    for (std::size_t c = 0; c < row.size(); ++c)
      for (const char* measured : {"seconds", "images_per_s", "energy_j", "co2_g"})
        if (header[c] == measured) row[c] = "";
  }
  return rows;
}

std::uint64_t flops_of(const std::string& run, const std::string& phase, const std::string& layer,
                       const std::string& op) {
  std::uint64_t sum = 0;
  for (const auto& row : energy::parse_ledger_csv(contents_of(run + "/ledger.csv"), "ledger.csv"))
    if (row.label.phase == phase && row.label.layer == layer && (op.empty() || row.label.op == op))
      sum += row.flops;
  return sum;
}

}  // namespace hg::testing
