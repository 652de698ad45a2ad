// hgtrain watch: the page of a run or an experiment, made anew at each request, for browsers on
// this machine alone.
#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <thread>

#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/experiment/stored.h"
#include "train/report/page.h"
#include "train/run/signals.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLoopback = "127.0.0.1";

// A run that goes on writes its ledger twice a second, and its summary at the end.
bool goes_on_now(const std::string& path) {
  const RunFolder folder{path};
  std::error_code error;
  const auto written = fs::last_write_time(folder.ledger(), error);
  if (error || fs::file_time_type::clock::now() - written > std::chrono::seconds(5)) return false;
  const auto ended = fs::last_write_time(folder.summary(), error);
  return error || ended < written;
}

std::string page_of_run(const std::string& folder) {
  report::RunRecord run = report::read_run(folder);
  if (goes_on_now(folder)) run.status = "running";
  return report::page({run}, true);
}

std::string page_of(const std::string& folder) {
  return experiment::is_experiment(folder) ? to_page(experiment::read_results(folder), true)
                                           : page_of_run(folder);
}

void answer(httplib::Response& response, const std::function<std::string()>& page) {
  try {
    response.set_header("Cache-Control", "no-store");
    response.set_content(page(), "text/html; charset=utf-8");
  } catch (const std::exception& e) {
    response.status = 500;
    response.set_content(e.what(), "text/plain; charset=utf-8");
  }
}

// A page of another site may send a browser here under a name of its own.
bool is_for_us(const httplib::Request& request, int port) {
  const std::string host = request.get_header_value("Host");
  return host == fmt::format("{}:{}", kLoopback, port) || host == fmt::format("localhost:{}", port);
}

void serve_pages(httplib::Server& server, const std::string& folder, const int& port) {
  server.set_pre_routing_handler([&port](const httplib::Request& request, httplib::Response& r) {
    if (is_for_us(request, port)) return httplib::Server::HandlerResponse::Unhandled;
    r.status = 403;
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [folder](const httplib::Request&, httplib::Response& response) {
    answer(response, [&] { return page_of(folder); });
  });
  // As an experiment's page links to its runs. No name leads out of the folder.
  server.Get(R"(/runs/([\w-][\w.-]*)/report\.html)",
             [folder](const httplib::Request& request, httplib::Response& response) {
               answer(response, [&] {
                 return page_of_run(fmt::format("{}/runs/{}", folder, request.matches[1].str()));
               });
             });
}

int bind(httplib::Server& server, int port) {
  // The library's own options let two servers share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  if (port == 0) return server.bind_to_any_port(kLoopback);
  usage_require(server.bind_to_port(kLoopback, port), "--port",
                "{} is in use; expected a free port, or 0 for any", port);
  return port;
}

}  // namespace

int watch_command(const WatchOptions& options) {
  usage_require(is_folder(options.folder), options.folder,
                "no such folder; expected that of a run or an experiment that has begun");
  page_of(options.folder);  // refuses what is neither
  const StopSignals signals;
  httplib::Server server;
  int port = options.port;
  serve_pages(server, options.folder, port);
  port = bind(server, options.port);
  fmt::print("http://{}:{}/ shows {}; Ctrl-C ends it\n", kLoopback, port, options.folder);
  std::fflush(stdout);
  std::thread serving([&] { server.listen_after_bind(); });
  while (!signals.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server.stop();
  serving.join();
  return 0;
}

}  // namespace hg
