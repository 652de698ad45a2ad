// Parses JSON from a file that anyone may have written: no deeper than it has a reason to be, as
// code that walks it may recurse, and without equal keys, of which programs would take either.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"

namespace hg {

template <class Json>
Json parse_json(std::string_view text, const std::string& source, int deepest) {
  std::vector<std::set<std::string>> seen(static_cast<std::size_t>(deepest) + 1);  // keys, by depth
  std::optional<std::string> duplicate;
  bool too_deep = false;
  const auto watch = [&](int depth, typename Json::parse_event_t event, Json& value) {
    too_deep |= depth > deepest;
    if (too_deep) return false;
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start && depth < deepest) seen[level + 1].clear();
    if (event == Json::parse_event_t::key)
      if (!seen[level].insert(value.template get_ref<const std::string&>()).second)
        duplicate = value.template get<std::string>();
    return true;
  };
  try {
    Json parsed = Json::parse(text, watch);
    usage_require(!too_deep, source, "nested deeper than {} levels", deepest);
    usage_require(!duplicate, source, "{} appears twice", printable(duplicate.value_or("")));
    return parsed;
  } catch (const typename Json::parse_error& e) {
    usage_require(!too_deep, source, "nested deeper than {} levels", deepest);
    usage_fail(source, "no JSON: the fault is at byte {}", e.byte);
  } catch (const typename Json::out_of_range&) {
    usage_fail(source, "no JSON: a number is too large");
  }
}

}  // namespace hg
