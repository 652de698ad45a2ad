// The kit that all pages are made of: the document, figures, cards, tables. Everything escapes what
// it is given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/base/text.h"

namespace hg::report {

// A page without reference to anything outside it: what goes before its contents, and after. A live
// page asks its server for new contents every two seconds.
std::string document_start(const std::string& title, bool live = false);
std::string document_end();
// What document_end() adds.
std::size_t size_of_end();

std::string heading(int level, const std::string& text);
std::string paragraph(const std::string& text, const char* css = "");
// Without a caption if that is "".
std::string figure(const std::string& title, const std::string& body, const std::string& caption);
std::string details(const std::string& summary, const std::string& html);
std::string preformatted(const std::string& text);

// A figure that stands out; `note` below it, if any. Inside <ul class="cards">.
std::string card(const std::string& name, const std::string& value, const std::string& range,
                 const std::string& note = "");

// A table whose columns sort when clicked: the head, cells with what they sort by, the end.
std::string table_head(const std::vector<std::string>& texts,
                       const std::vector<std::string>& numbers);
std::string cell(const std::string& text, double sort_by);
std::string cell(double value, int decimals);
std::string cell(const std::optional<double>& value, int decimals);  // "-": none
std::string no_cell();                                               // "-"
std::string label_cell(const std::string& text, const std::string& below = "");
inline constexpr const char* kTableEnd = "</tbody></table></div>\n";

// A table of texts: a row each, the first cell its name. Of no rows: "".
std::string value_table(const std::vector<std::string>& columns,
                        const std::vector<std::vector<std::string>>& rows);

}  // namespace hg::report
