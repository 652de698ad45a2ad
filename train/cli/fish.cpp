// Completion for fish.
#include "train/cli/manual.h"
#include "train/cli/script.h"
#include "train/config/key.h"

namespace hg::manual {
namespace {

constexpr const char* kFishScript = R"(# Fish completion for @P@, made by `@P@ completion fish`.

function __@P@_setting
    set -l key (commandline -ct | string replace -r '^--set=' '' | string split -m 1 =)
    if not set -q key[2]
        printf '%s=\t%s\n' @KEYS@
        return
    end
    switch $key[1]
@CHOICES@        case @PATHS@
            __fish_complete_path $key[2] | string replace -r '^' "$key[1]="
    end
end

# Of a list with commas the last word.
function __@P@_list
    set -l start (commandline -ct | string match -r '.*,')
    printf '%s\n' "$start"$argv
end

complete -c @P@ -f
)";

std::string fish_quoted(std::string_view text) {
  return in_quotes(replaced(std::string(text), "\\", "\\\\"), "\\'");
}

// What completes a value, as options of `complete`.
std::string fish_action(const Offer& offer) {
  std::string text;
  if (offer.files) text += " -F";
  std::string from;
  if (offer.list)
    from = "(__@P@_list " + joined(offer.words) + ")";
  else
    from = joined(offer.words);
  if (offer.settings) from += "(__@P@_setting)";
  if (offer.folders && !offer.files) from += "(__fish_complete_directories (commandline -ct))";
  return from.empty() ? text : text + " -a " + fish_quoted(from);
}

std::string fish_lines(const CommandText& command, const std::string& condition) {
  const std::string start = "complete -c @P@ -n " + fish_quoted(condition);
  std::string text;
  for (const OptionText& option : command.flags()) {
    text += start;
    for (const std::string& name : option.names)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.value.empty())
      text += (option.offer.files ? " -r" : " -x") + fish_action(option.offer);
    text += " -d " + fish_quoted(option.help) + "\n";
  }
  for (const OptionText& argument : command.arguments())
    if (const std::string own = fish_action(argument.offer); !own.empty())
      text += start + own + " -d " + fish_quoted(argument.value) + "\n";
  return text;
}

}  // namespace

std::string fish_completion(const CommandText& program) {
  std::string keys, choices, commands, names;
  for (const KeyText& key : key_texts()) {
    keys += " " + key.name + " " + fish_quoted(key.meaning);
    if (key.choices.empty()) continue;
    choices += "        case " + key.name + "\n            printf '%s\\n' " + key.name + "={" +
               joined(key.choices, ",") + "}\n";
  }
  for (const CommandText& command : program.commands) {
    names += " " + command.name;
    commands += fish_lines(command, "__fish_seen_subcommand_from " + command.name);
  }
  const std::string none = "not __fish_seen_subcommand_from" + names;
  for (const CommandText& command : program.commands)
    commands += "complete -c @P@ -n " + fish_quoted(none) + " -a " + command.name + " -d " +
                fish_quoted(command.help) + "\n";
  commands += fish_lines(program, none);
  std::string text = replaced(kFishScript, "@CHOICES@", choices);
  text = replaced(text, "@KEYS@", keys.substr(1));
  text = replaced(text, "@PATHS@", joined(path_keys()));
  return replaced(text + commands, "@P@", program.name);
}

}  // namespace hg::manual
