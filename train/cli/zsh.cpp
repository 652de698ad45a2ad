// Completion for zsh, by its _arguments.
#include "train/cli/manual.h"
#include "train/cli/script.h"
#include "train/config/key.h"

namespace hg::manual {
namespace {

constexpr const char* kZshScript = R"(#compdef @P@
# Zsh completion for @P@, made by `@P@ completion zsh`.

_@P@_setting() {
    if ! compset -P '*='; then
        compadd -S = -q -- @KEYS@
        return
    fi
    case ${${IPREFIX%=}##*=} in
@CHOICES@    @PATHS@) _files ;;
    esac
}

_@P@() {
    local name=
    (( CURRENT > 2 )) && name=$words[2]
    case $name in
@CASES@    esac
}

_@P@ "$@"
)";

// In a specification of _arguments.
std::string in_spec(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const Offer& offer) {
  std::string text;
  if (offer.list)
    text += "_values -s , name " + joined(offer.words) + "; ";
  else if (!offer.words.empty())
    text += "compadd -- " + joined(offer.words) + "; ";
  if (offer.settings) text += "_@P@_setting; ";
  if (offer.files)
    text += "_files; ";
  else if (offer.folders)
    text += "_files -/; ";
  return text.empty() ? " " : "{" + text.substr(0, text.size() - 2) + "}";
}

// '--out=[run folder]:DIR:{_files -/}', once for each name of an option.
std::string zsh_specs(const OptionText& option) {
  const std::string value =
      option.value.empty() ? "" : ":" + in_spec(option.value) + ":" + zsh_action(option.offer);
  std::string text;
  for (const std::string& name : option.names) {
    const bool joins = !option.value.empty() && name.starts_with("--");
    const std::string head = option.repeated ? "*" + name : "(" + joined(option.names) + ")" + name;
    text += " \\\n            " +
            in_quotes(head + (joins ? "=" : "") + "[" + in_spec(option.help) + "]" + value);
  }
  return text;
}

std::string zsh_specs(const CommandText& command) {
  std::string text;
  for (const OptionText& flag : command.flags()) text += zsh_specs(flag);
  for (const OptionText& argument : command.arguments())
    text +=
        " \\\n            " + in_quotes((argument.repeated ? "*:" : ":") + in_spec(argument.value) +
                                        ":" + zsh_action(argument.offer));
  return text;
}

std::string zsh_case(const CommandText& command) {
  return "    " + command.name + ")\n        shift words; (( CURRENT-- ))\n        _arguments" +
         zsh_specs(command) + " ;;\n";
}

// Of the program itself: its commands, and what may stand there without one.
std::string zsh_program(const CommandText& program) {
  std::string text =
      "    *)\n        if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
      "            local -a commands=(\n";
  for (const CommandText& command : program.commands)
    text += "                " + in_quotes(command.name + ":" + in_spec(command.help)) + "\n";
  text += "            )\n            _describe -t commands command commands\n";
  for (const OptionText& argument : program.arguments()) {
    const std::string own = zsh_action(argument.offer);
    if (own != " ") text += "            " + own.substr(1, own.size() - 2) + "\n";
  }
  return text + "            return\n        fi\n        _arguments" + zsh_specs(program) + " ;;\n";
}

}  // namespace

std::string zsh_completion(const CommandText& program) {
  std::vector<std::string> keys;
  std::string choices, cases;
  for (const KeyText& key : key_texts()) {
    keys.push_back(key.name);
    if (!key.choices.empty())
      choices += "    " + key.name + ") compadd -- " + joined(key.choices) + " ;;\n";
  }
  for (const CommandText& command : program.commands) cases += zsh_case(command);
  std::string text = replaced(kZshScript, "@CASES@", cases + zsh_program(program));
  text = replaced(text, "@CHOICES@", choices);
  text = replaced(text, "@KEYS@", joined(keys));
  text = replaced(text, "@PATHS@", joined(path_keys(), " | "));
  return replaced(text, "@P@", program.name);
}

}  // namespace hg::manual
