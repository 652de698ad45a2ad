// The text of commands out of their CLI11 objects.
#include <algorithm>

#include "nn/attention/attention.h"
#include "tensor/base/text.h"
#include "train/cli/command.h"
#include "train/cli/manual.h"
#include "train/config/config.h"
#include "train/config/key.h"
#include "train/experiment/file.h"

namespace hg::manual {
namespace {

std::vector<std::string> names_of(const std::vector<BuiltinText>& builtin) {
  std::vector<std::string> names;
  for (const BuiltinText& text : builtin) names.emplace_back(text.name);
  return names;
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// What stands for a value says what it is: words as they are, in capitals kinds of values.
Offer offer_for(std::string_view value) {
  Offer offer;
  offer.list = value.ends_with(",...");
  for (const std::string_view part : split(value, '|')) {
    const auto begins = [&](std::string_view kind) { return part.starts_with(kind); };
    if (part == "CONFIG") append(offer.words, names_of(builtin_configs()));
    if (part == "EXPERIMENT") append(offer.words, names_of(experiment::builtin_experiments()));
    if (begins("ATTENTION")) append(offer.words, nn::attention_names());
    if (part == "KEY=VALUE") offer.settings = true;
    offer.folders |= part == "DIR" || begins("RUN_DIR");
    offer.files |= part == "CONFIG" || part == "EXPERIMENT" || part == "TARGET" ||
                   begins("IMAGE") || begins("FILE");
    if (std::any_of(part.begin(), part.end(), [](char c) { return std::islower(c); }))
      offer.words.emplace_back(part);
  }
  return offer;
}

// CLI11's name of a type, without what validators add; of an argument, unless it says more, the
// argument's own.
std::string value_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  std::string type = option.get_type_name();
  type.resize(std::min(type.find(':'), type.size()));
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "X";
  return type;
}

std::string default_of(const CLI::Option& option) {
  const std::string text = option.get_default_str();
  if (text.empty() || text == "[]" || text == "{}" || text == "\"\"") return "";
  const bool list = text.starts_with('[') && text.ends_with(']');
  return list ? text.substr(1, text.size() - 2) : text;
}

OptionText text_of(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  text.value = value_of(option);
  const std::string kind = text.value;
  if (text.by_place()) text.value = option.get_name(true);
  text.offer = offer_for(text.by_place() && kind == "TEXT" ? text.value : kind);
  text.help = option.get_description();
  if (!text.value.empty()) text.initial = default_of(option);
  text.required = option.get_required();
  text.repeated = option.get_expected_max() > 1;
  return text;
}

std::vector<OptionText> chosen(const std::vector<OptionText>& options, bool by_place) {
  std::vector<OptionText> found;
  for (const OptionText& option : options)
    if (option.by_place() == by_place) found.push_back(option);
  return found;
}

}  // namespace

std::vector<OptionText> CommandText::arguments() const { return chosen(options, true); }
std::vector<OptionText> CommandText::flags() const { return chosen(options, false); }

std::vector<NameList> name_lists() {
  std::vector<NameList> lists{
      {"Built-in configurations", names_of(builtin_configs())},
      {"Built-in experiments", names_of(experiment::builtin_experiments())}};
  for (const KeyText& key : key_texts()) {
    if (key.name == "model.attention")
      lists.push_back({"Attentions (model.attention)", key.choices});
    if (key.name == "data.name") lists.push_back({"Data sets (data.name)", key.choices});
  }
  return lists;
}

CommandText describe(const CLI::App& app) {
  CommandText text{app.get_name(), app.get_description(), {}, {}, {}, {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) text.options.push_back(text_of(*option));
  if (const auto* command = dynamic_cast<const Command*>(&app)) {
    text.examples = command->examples;
    text.exit_codes = command->exit_codes;
  }
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) text.commands.push_back(describe(*command));
  return text;
}

}  // namespace hg::manual
