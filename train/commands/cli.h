// Command-line options that programs share. For the files with a main() alone: CLI11 is large.
#pragma once

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"

namespace hg {

inline std::string config_help() {
  std::string names;
  for (const BuiltinConfig& builtin : builtin_configs())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", builtin.name);
  return fmt::format("TOML file, or a built-in configuration ({})", names);
}

// For every option that is no whole number. CLI::Range lets NaN pass: it is neither below nor
// above.
inline CLI::Validator number_between(double low, double high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
        return fmt::format("expected a number from {:g} to {:g}, got {}", low, high,
                           printable(text));
      },
      fmt::format("FLOAT in [{:g} - {:g}]", low, high));
}

inline void add_settings(CLI::App& app, std::vector<std::string>& settings) {
  app.add_option("--set", settings, "section.key=value on top of the configuration")
      ->allow_extra_args(false);
}
inline void add_model_options(CLI::App& app, ModelOptions& o) {
  add_settings(app, o.settings);
  app.add_option("--device", o.device, "cpu, cuda or auto");
  app.add_option("--threads", o.threads, "worker threads; 0: every core");
  app.add_option("--seed", o.seed, "seed of every random draw");
}

inline void add_phase(CLI::App& app, std::optional<std::int64_t>& phase) {
  app.add_option("--phase", phase,
                 "phase whose step is measured, from 0 (default: the first that learns classes)");
}

inline void add_json(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "print one JSON object on standard output");
}
inline void add_json(CLI::App& app, ModelOptions& o) { add_json(app, o.json); }

// The commands of a program. Each has options of its own, which `add` reads into; `run` takes them.
struct Commands {
  CLI::App& app;
  std::function<int()> chosen{};  // runs the one given; none: no command was

  template <class Options>
  void add(const char* name, const char* help, void (*add)(CLI::App&, Options&),
           int (*run)(const Options&)) {
    CLI::App& command = *app.add_subcommand(name, help);
    const auto options = std::make_shared<Options>();
    add(command, *options);
    command.callback([=, this] { chosen = [=] { return run(*options); }; });
  }
};

// The whole of main(): errors become one line on standard error and an exit code.
template <class Body>
int run_program(const char* name, Body&& body) {
  try {
    const int code = body();
    require(std::fflush(stdout) == 0, "standard output", "cannot write: {}", std::strerror(errno));
    return code;
  } catch (const UsageError& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}

}  // namespace hg
