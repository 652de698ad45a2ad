// Completion for bash; it needs no package beside bash.
#include "train/cli/manual.h"
#include "train/cli/script.h"
#include "train/config/key.h"

namespace hg::manual {
namespace {

// Bash cuts words at "=": they are cut out of the line anew, and where "=" breaks words, an answer
// begins after the last one.
constexpr const char* kBashScript =
    R"script(# Bash completion for @P@, made by `@P@ completion bash`.

_@P@_choices() {
    case $1 in
@CHOICES@    esac
}

_@P@_words() {
    local IFS=$' \t\n'
    COMPREPLY+=($(compgen -W "$1" -- "$cur"))
}

# Of a list with commas the last word.
_@P@_list() {
    local start=
    [[ $cur == *,* ]] && start=${cur%,*},
    cur=${cur##*,}
    _@P@_words "$1"
    COMPREPLY=("${COMPREPLY[@]/#/$start}")
    compopt -o nospace 2>/dev/null
}

# $1: -f for files, -d for folders.
_@P@_files() {
    local path
    while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$1" -- "$cur")
    compopt -o filenames 2>/dev/null
}

_@P@_setting() {
    if [[ $cur != *=* ]]; then
        _@P@_words '@KEYS@'
        COMPREPLY=("${COMPREPLY[@]/%/=}")
        compopt -o nospace 2>/dev/null
        return
    fi
    local key=${cur%%=*}
    before+=$key=
    cur=${cur#*=}
    case $key in
    @PATHS@) _@P@_files -f ;;
    *) _@P@_words "$(_@P@_choices "$key")" ;;
    esac
}

_@P@_complete() {
    local i command=
    for ((i = 1; i < ${#given[@]} - 1; i++)); do
        case ${given[i]} in
        @COMMANDS@) command=${given[i]} && break ;;
        esac
    done
    case $command in
@CASES@    esac
}

_@P@() {
    local line=${COMP_LINE:0:COMP_POINT} cur previous before=
    local -a given
    read -a given <<<"$line"
    [[ $line == *[[:space:]] ]] && given+=('')
    cur=${given[-1]}
    previous=${given[-2]}
    [[ $cur == --*=* ]] && previous=${cur%%=*} && before=$previous= && cur=${cur#*=}
    COMPREPLY=()
    _@P@_complete
    [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$before}")
}

complete -F _@P@ @P@
)script";

std::string bash_action(const Offer& offer) {
  std::string text;
  if (!offer.words.empty())
    text += (offer.list ? "_@P@_list " : "_@P@_words ") + in_quotes(joined(offer.words)) + "; ";
  if (offer.settings) text += "_@P@_setting; ";
  if (offer.files)
    text += "_@P@_files -f; ";
  else if (offer.folders)
    text += "_@P@_files -d; ";
  return text;
}

std::string bash_case(const CommandText& command, const std::string& name) {
  std::string text = "    " + name + ")\n        case $previous in\n";
  std::vector<std::string> names;
  for (const OptionText& option : command.flags()) {
    names.insert(names.end(), option.names.begin(), option.names.end());
    if (!option.value.empty())
      text += "        " + joined(option.names, " | ") + ") " + bash_action(option.offer) +
              "return ;;\n";
  }
  text += "        esac\n        if [[ $cur == -* ]]; then\n            _@P@_words " +
          in_quotes(joined(names)) + "\n            return\n        fi\n";
  Offer offer;
  for (const CommandText& inner : command.commands) offer.words.push_back(inner.name);
  for (const OptionText& argument : command.arguments()) {
    const Offer& more = argument.offer;
    offer.words.insert(offer.words.end(), more.words.begin(), more.words.end());
    offer.files |= more.files;
    offer.folders |= more.folders;
  }
  return text + "        " + bash_action(offer) + "\n        ;;\n";
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::vector<std::string> keys, commands;
  std::string choices, cases;
  for (const KeyText& key : key_texts()) {
    keys.push_back(key.name);
    if (!key.choices.empty())
      choices += "    " + key.name + ") echo " + in_quotes(joined(key.choices)) + " ;;\n";
  }
  for (const CommandText& command : program.commands) {
    commands.push_back(command.name);
    cases += bash_case(command, command.name);
  }
  cases += bash_case(program, "''");
  std::string text = replaced(kBashScript, "@CASES@", cases);
  text = replaced(text, "@CHOICES@", choices);
  text = replaced(text, "@KEYS@", joined(keys));
  text = replaced(text, "@PATHS@", joined(path_keys(), " | "));
  text = replaced(text, "@COMMANDS@", joined(commands, " | "));
  return replaced(text, "@P@", program.name);
}

}  // namespace hg::manual
