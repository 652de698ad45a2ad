#include "train/store/launches.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "energy/meters/cpu_info.h"
#include "tensor/base/files.h"
#include "tensor/base/json_value.h"
#include "tensor/base/process.h"
#include "tensor/base/text.h"
#include "tensor/cpu/parallel.h"

namespace hg {
namespace {

std::string time_with_zone() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &local)};
}

std::string current_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

}  // namespace

Launch this_launch() {
  utsname name{};
  ::uname(&name);
  return {time_with_zone(),
          command_line(),
          current_folder(),
          program_version(),
          name.nodename,
          fmt::format("{} {} {}", name.sysname, name.release, name.machine),
          energy::described(energy::read_cpu_info("/sys")),
          cpu::threads()};
}

void note_launch(const std::string& path, const Launch& launch, bool resume) {
  std::vector<Launch> all;
  if (resume) all = read_launches(path);
  all.push_back(launch);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Launch& l : all)
    list.push_back({{"started", printable_utf8(l.started)},
                    {"command", printable_utf8(l.command)},
                    {"folder", printable_utf8(l.folder)},
                    {"version", printable_utf8(l.version)},
                    {"host", printable_utf8(l.host)},
                    {"system", printable_utf8(l.system)},
                    {"cpu", printable_utf8(l.cpu)},
                    {"threads", l.threads}});
  write_file(path, nlohmann::ordered_json{{"launches", list}}.dump(1) + "\n");
}

std::vector<Launch> read_launches(const std::string& path) {
  std::vector<Launch> all;
  if (!is_file(path)) return all;
  for (const JsonValue& l : JsonValue::read(path)["launches"].items())
    all.push_back({l.text_if_any("started"), l.text_if_any("command"), l.text_if_any("folder"),
                   l.text_if_any("version"), l.text_if_any("host"), l.text_if_any("system"),
                   l.text_if_any("cpu"), l["threads"].integer()});
  return all;
}

}  // namespace hg
