// Command-line options that programs share. For the files with a main() alone: CLI11 is large.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "tensor/base/columns.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/cli/command.h"
#include "train/cli/manual.h"
#include "train/commands/commands.h"

namespace hg {

inline constexpr const char* kConfigHelp =
    "TOML file, a built-in configuration (hgtrain --help lists them), or a model whose shape to "
    "take: a .safetensors file or a folder by Hugging Face";

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
  app.add_option("--set", settings,
                 "section.key=value on top of the configuration; hgtrain config lists the keys")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}
inline void add_model_options(CLI::App& app, ModelOptions& o) {
  add_settings(app, o.settings);
  app.add_option("--device", o.device, "where the model runs (default: the configuration's)")
      ->type_name("cpu|cuda|auto");
  app.add_option("--threads", o.threads,
                 "worker threads; 0: every core (default: the configuration's)");
  app.add_option("--seed", o.seed, "seed of every random draw (default: the configuration's)");
}

inline CLI::Option* add_phase(CLI::App& app, std::optional<std::int64_t>& phase) {
  return app.add_option(
      "--phase", phase,
      "phase whose step is measured, from 0 (default: the first that learns classes)");
}

inline void add_json(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "print one JSON object on standard output");
}
inline void add_json(CLI::App& app, ModelOptions& o) { add_json(app, o.json); }

// The commands of a program. Each has options of its own, which `add` reads into; `run` takes them.
struct Commands {
  Command& app;
  std::function<int()> chosen{};  // runs the one given; none: no command was

  template <class Options>
  Command& add(const char* name, const char* help, void (*add)(CLI::App&, Options&),
               int (*run)(const Options&)) {
    const auto command = std::make_shared<Command>(help, name, &app);
    app.add_subcommand(command);
    const auto options = std::make_shared<Options>();
    add(*command, *options);
    command->callback([=, this] { chosen = [=] { return run(*options); }; });
    return *command;
  }
};

// For the build, which installs what they print; not in --help.
struct ManualOptions {
  const CLI::App* program = nullptr;
  std::string shell;
};
inline void add_man(CLI::App& app, ManualOptions& o) { o.program = app.group("")->get_parent(); }
inline void add_completion(CLI::App& app, ManualOptions& o) {
  add_man(app, o);
  app.add_option("SHELL", o.shell)->required()->check(CLI::IsMember(manual::shells()));
}
inline int man_command(const ManualOptions& o) {
  // --version says "hgtrain 0.2.0 (commit ...)"
  const std::string version_line = o.program->version();
  const std::string version(words(version_line).at(1));
  fmt::print("{}", manual::man_page(manual::describe(*o.program), version));
  return 0;
}
inline int completion_command(const ManualOptions& o) {
  fmt::print("{}", manual::completion(manual::describe(*o.program), o.shell));
  return 0;
}

// Before commands are added: they take it over.
inline void prepare(Command& app, const std::string& version) {
  app.set_version_flag("--version", version, "print version, commit and build options, and exit");
  app.set_help_flag("-h,--help", "print this and exit");
  app.option_defaults()->always_capture_default();
  app.formatter_fn([](const CLI::App* shown, const std::string&, CLI::AppFormatMode) {
    const std::string name =
        shown->get_parent() ? shown->get_parent()->get_name() + " " : std::string();
    const std::size_t columns = columns_of(stdout);
    return manual::help_text(manual::describe(*shown), name + shown->get_name(),
                             columns == 0 ? 80 : std::min<std::size_t>(columns, 100));
  });
}

// None: the program goes on with what it read.
inline std::optional<int> parse_arguments(Command& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    const std::string unknown = manual::unknown_argument(app);
    fmt::print(stderr, "{}: {} ({} --help shows how)\n", app.get_name(),
               unknown.empty() ? e.what() : unknown, app.get_name());
    return 2;
  }
}

// The exception under way in one line on standard error, and the exit code for it. None is under
// way where the standard library gave up in a function that may not throw, for want of memory.
inline int tell_failure(const char* name) {
  const auto tell = [&](const std::string_view fault) {
    fmt::print(stderr, "{}: {}\n", name, fault);
  };
  try {
    if (!std::current_exception()) throw std::bad_alloc();
    throw;
  } catch (const UsageError& e) {
    tell(e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    tell("no memory left");
  } catch (const std::system_error& e) {
    const bool of_thread = e.code() == std::errc::resource_unavailable_try_again;
    tell(of_thread ? "cannot start a thread: the system has none left" : e.what());
  } catch (const std::exception& e) {
    tell(e.what());
  }
  return 1;
}

// The whole of main(): errors become one line on standard error and an exit code.
template <class Body>
int run_program(const char* name, Body&& body) {
  // For what nothing can catch: destructors of the JSON library need memory.
  static const char* const program = name;
  std::set_terminate([] {
    std::set_terminate(std::abort);
    std::_Exit(tell_failure(program));
  });
  try {
    const int code = body();
    require(std::fflush(stdout) == 0, "standard output", "cannot write: {}", std::strerror(errno));
    return code;
  } catch (...) {
    return tell_failure(name);
  }
}

}  // namespace hg
