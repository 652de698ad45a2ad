// hgtrain watch: a page that follows its run, for this machine alone.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tensor/base/text.h"
#include "tests/support/program.h"

namespace {

using namespace hg;
using namespace hg::testing;

sockaddr_in address_of(const char* host, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host, &to.sin_addr);
  return to;
}

// The whole answer, its head included; "" where nobody answers.
std::string get(int port, const std::string& path, const std::string& host) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in to = address_of("127.0.0.1", port);
  std::string text;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    const std::string request =
        fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", path, host);
    REQUIRE(::send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
    char part[4096];
    for (ssize_t n; (n = ::recv(fd, part, sizeof part, 0)) > 0;)
      text.append(part, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return text;
}

class Watch {
 public:
  explicit Watch(const std::string& folder) : child_({"watch", folder, "--port", "0"}, options()) {
    REQUIRE(child_.await([&] { return contents_of(said()).find('\n') != std::string::npos; }));
    const std::string line = contents_of(said()), start = "http://127.0.0.1:";
    REQUIRE(line.starts_with(start));
    port_ =
        parse_number<int>(line.substr(start.size(), line.find('/', start.size()) - start.size()))
            .value();
  }
  int port() const { return port_; }
  std::string page(const std::string& path = "/", const std::string& host = "") const {
    return get(port_, path, host.empty() ? fmt::format("127.0.0.1:{}", port_) : host);
  }
  int end(int signal) {
    child_.signal(signal);
    return child_.wait().code;
  }

 private:
  ChildOptions options() const {
    ChildOptions options;
    options.out = said();
    return options;
  }
  std::string said() const { return folder_ / "said"; }

  const TempFolder folder_;
  Child child_;
  int port_ = 0;
};

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a watched page follows the run and ends by Ctrl-C") {
  const TempFolder folder;
  const std::string run = folder / "run";
  ChildOptions step_by_step;
  step_by_step.in_step = true;
  Child training(tiny_train(run, set({"train.epochs=50"})), step_by_step);
  REQUIRE(training.await_line("epoch 1/50"));
  Watch watch(run);
  const std::string early = watch.page();
  CHECK(early.starts_with("HTTP/1.1 200"));
  CHECK(says(early, "<p id=\"live\">"));
  CHECK(says(early, "running: "));
  CHECK_FALSE(says(early, "running: 50 of 50 epochs"));
  CHECK(training.wait().code == 0);
  CHECK(says(watch.page(), "finished: 50 of 50 epochs"));
  CHECK(watch.end(SIGINT) == 0);
  CHECK(get(watch.port(), "/", "127.0.0.1") == "");
}

TEST_CASE("an experiment is watched with its runs, and nothing else of the machine is shown") {
  const TempFolder folder;
  const std::string out = folder / "out";
  REQUIRE(
      hgtrain(Arguments{"experiment", "quick", "--scale", "smoke", "--repeats", "1", "--out", out,
                        "--threads", "1", "--quiet"} +
              set({"data.train_limit=40", "data.test_limit=20", "train.batch_size=20",
                   "train.epochs=1", "model.depth=1", "model.emb_size=16", "model.patch_size=8"}))
          .code == 0);
  Watch watch(out);
  CHECK(says(watch.page(), "Pareto front"));
  CHECK(says(watch.page("/runs/vit-1/report.html"), "finished: 1 of 1 epoch"));
  CHECK(says(watch.page("/runs/none/report.html"), "no such run folder"));
  for (const char* path : {"/runs/../runs/vit-1/report.html", "/runs/%2e%2e/report.html",
                           "/results.json", "/runs/vit-1/config.toml"}) {
    INFO(path);
    const std::string answer = watch.page(path);
    CHECK(answer.starts_with("HTTP/1.1 404"));
  }
  CHECK(watch.page("/", "evil.example").starts_with("HTTP/1.1 403"));
  // On the other addresses of this machine nobody listens.
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in other = address_of("127.0.0.2", watch.port());
  CHECK(::connect(fd, reinterpret_cast<const sockaddr*>(&other), sizeof other) != 0);
  ::close(fd);
  check_refused(hgtrain({"watch", out, "--port", std::to_string(watch.port())}), 2,
                {"--port", std::to_string(watch.port()), "is in use"});
  CHECK(watch.end(SIGTERM) == 0);
}

TEST_CASE("what is no run or experiment cannot be watched") {
  const TempFolder folder;
  check_refused(hgtrain({"watch", folder / "none"}), 2, {"none", "no such folder"});
  check_refused(hgtrain({"watch", folder.path()}), 2, {"not a run folder"});
  check_refused(hgtrain({"watch", folder.path(), "--port", "70000"}), 2, {"70000"});
}
