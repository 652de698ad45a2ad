// Completion, by the shells themselves where they are installed.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>

#include "tests/train/cli/programs.h"
#include "train/config/key.h"
#include "train/experiment/file.h"

namespace {

using namespace hg;
using namespace hg::testing;
using Words = std::vector<std::string>;

constexpr const char* kBreaks = " \t\n\"'><=;|&(:";  // as bash has them

// What bash offers for a line whose end is completed.
Words completed(const std::string& line, const std::string& breaks = kBreaks) {
  const TempFolder folder;
  const std::string program = line.substr(0, line.find(' '));
  put(folder / "completion", run_program(program, {"completion", "bash"}).out);
  put(folder / "ask", "source \"$1\"\nCOMP_WORDBREAKS=$3 COMP_LINE=$2 COMP_POINT=${#2}\n_" +
                          program + "\nprintf '%s\\n' \"${COMPREPLY[@]}\"\ncomplete -p " + program +
                          " >&2\n");
  const Outcome done =
      run_tool("/bin/bash", {"--norc", folder / "ask", folder / "completion", line, breaks});
  CHECK(done.code == 0);
  CHECK(joined_words(done.err) == "complete -F _" + program + " " + program);
  Words words = lines_of(done.out);
  std::erase(words, "");
  std::sort(words.begin(), words.end());
  return words;
}

Words sorted(Words words) {
  std::sort(words.begin(), words.end());
  return words;
}

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("bash completes commands and their options") {
  for (const std::string program : {"hgtrain", "hgprof"}) {
    const Words offered = completed(program + " ");
    for (const std::string& command : commands_of(program)) CHECK(has(offered, command));
  }
  CHECK(completed("hgtrain tr") == Words{"train"});
  CHECK(completed("hgtrain train --dev") == Words{"--device"});
  CHECK(completed("hgtrain train shapes --res") == Words{"--resume"});
  CHECK(completed("hgprof ops --fil") == Words{"--filter"});
  CHECK(completed("hgprof shapes --so") == Words{"--sort"});
  CHECK(completed("hgtrain train --device ") == Words{"auto", "cpu", "cuda"});
  CHECK(completed("hgtrain train --device=c") == Words{"cpu", "cuda"});
  CHECK(completed("hgtrain train --seed ").empty());
}

TEST_CASE("bash completes configurations, experiments, attentions and files") {
  CHECK(completed("hgtrain info dei") == Words{"deit-tiny"});
  CHECK(completed("hgprof deit") == Words{"deit-tiny"});
  const Words offered = completed("hgtrain experiment ");
  for (const BuiltinText& builtin : experiment::builtin_experiments())
    CHECK(has(offered, std::string(builtin.name)));
  CHECK(has(offered, "list"));
  CHECK(completed("hgtrain experiment quick --scale s") == Words{"small", "smoke"});
  CHECK(completed("hgtrain compare shapes --attention softmax,linf") == Words{"softmax,linformer"});
  const TempFolder folder;
  put(folder / "mine.toml", "");
  std::filesystem::create_directory(folder / "my folder");
  CHECK(completed("hgtrain train " + (folder / "mi")) == Words{folder / "mine.toml"});
  CHECK(completed("hgtrain train shapes --out " + (folder / "m")) == Words{folder / "my folder"});
  CHECK(completed("hgtrain eval " + (folder / "my\\ f")) == Words{folder / "my folder"});
}

TEST_CASE("bash completes keys of --set and their values") {
  Words keys;
  for (const KeyText& key : key_texts()) keys.push_back(key.name + "=");
  CHECK(completed("hgtrain train shapes --set ") == sorted(keys));
  CHECK(completed("hgtrain train shapes --set model.att") == Words{"model.attention="});
  CHECK(completed("hgtrain train shapes --set model.attention=linf") == Words{"linformer"});
  CHECK(completed("hgtrain train shapes --set=model.pool=m") == Words{"mean"});
  CHECK(completed("hgtrain train shapes --set model.qkv_bias=") == Words{"false", "true"});
  CHECK(completed("hgtrain train shapes --set train.epochs=").empty());
  const TempFolder folder;
  put(folder / "a.safetensors", "");
  CHECK(completed("hgtrain train shapes --set run.init_from=" + (folder / "a")) ==
        Words{folder / "a.safetensors"});
  // Where = breaks no words, the whole word is replaced.
  CHECK(completed("hgtrain train shapes --set model.attention=linf", " \t\n") ==
        Words{"model.attention=linformer"});
}

TEST_CASE("scripts for zsh and fish are parsed by these shells") {
  const TempFolder folder;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string path = tool(shell, "its parser does not read the completion");
    for (const std::string program : {"hgtrain", "hgprof"}) {
      const Outcome script = run_program(program, {"completion", shell});
      CHECK(script.code == 0);
      CHECK(script.out.find("@P@") == std::string::npos);
      CHECK(script.out.find("linformer") != std::string::npos);
      if (path.empty()) continue;
      put(folder / "script", script.out);
      const Outcome parsed = run_tool(path, {"-n", folder / "script"});
      CHECK(parsed.code == 0);
      CHECK(parsed.err == "");
    }
  }
  check_refused(hgtrain({"completion", "tcsh"}), 2, {"SHELL", "tcsh"});
}

TEST_CASE("fish offers keys and values") {
  const std::string fish = tool("fish", "it completes nothing");
  if (fish.empty()) return;
  const TempFolder folder;
  put(folder / "script", hgtrain({"completion", "fish"}).out);
  const auto offered = [&](const std::string& line) {
    return run_tool(fish, {"--no-config", "-c",
                           "source " + (folder / "script") + "; complete -C '" + line + "'"})
        .out;
  };
  CHECK(offered("hgtrain tra").starts_with("train\t"));
  CHECK(offered("hgtrain train --set model.att").starts_with("model.attention=\t"));
  CHECK(offered("hgtrain train --set model.attention=linf").starts_with("model.attention=linf"));
  CHECK(lines_of(offered("hgtrain train --device ")).size() == 3);
}
