#include "train/report/html.h"

#include <fmt/format.h>

#include "train/report/script.h"
#include "train/report/style.h"

namespace hg::report {

std::string document_start(const std::string& title, bool live) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{}</title><link rel=\"icon\" "
      "href=\"data:,\"><style>{}</style></head><body>\n{}<main>\n",
      escape_html(title), kStyle, live ? "<p id=\"live\">Live page.</p>\n" : "");
}

std::string document_end() {
  return fmt::format("</main>\n<script>{}</script></body></html>\n", kScript);
}
std::size_t size_of_end() { return kScript.size() + 60; }

std::string heading(int level, const std::string& text) {
  return fmt::format("<h{0}>{1}</h{0}>\n", level, escape_html(text));
}

std::string paragraph(const std::string& text, const char* css) {
  return fmt::format("<p{}>{}</p>\n", *css ? fmt::format(" class=\"{}\"", css) : "",
                     escape_html(text));
}

std::string figure(const std::string& title, const std::string& body, const std::string& caption) {
  return fmt::format(
      "<figure><h3>{}</h3>\n{}{}</figure>\n", escape_html(title), body,
      caption.empty() ? "" : fmt::format("<figcaption>{}</figcaption>", escape_html(caption)));
}

std::string details(const std::string& summary, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", escape_html(summary), html);
}

std::string preformatted(const std::string& text) {
  return fmt::format("<pre>{}</pre>", escape_html(text));
}

std::string card(const std::string& name, const std::string& value, const std::string& range,
                 const std::string& note) {
  std::string html = fmt::format("<li><span class=\"name\">{}</span><b>{}</b>", escape_html(name),
                                 escape_html(value));
  for (const std::string& line : {range, note})
    if (!line.empty()) html += fmt::format("<span>{}</span>", escape_html(line));
  return html + "</li>\n";
}

std::string cell(const std::string& text, double sort_by) {
  return fmt::format("<td data-v=\"{}\">{}</td>", sort_by, escape_html(text));
}
std::string cell(double value, int decimals) {
  return cell(fmt::format("{:.{}f}", value, decimals), value);
}
std::string cell(const std::optional<double>& value, int decimals) {
  return value ? cell(*value, decimals) : no_cell();
}
std::string no_cell() { return cell("-", 0.0); }
std::string label_cell(const std::string& text, const std::string& below) {
  return fmt::format("<td class=\"text\">{}{}</td>", escape_html(text.empty() ? "-" : text),
                     below.empty() ? "" : fmt::format("<small>{}</small>", escape_html(below)));
}

std::string table_head(const std::vector<std::string>& texts,
                       const std::vector<std::string>& numbers) {
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& name : texts)
    html += fmt::format("<th class=\"text\"><button>{}</button></th>", escape_html(name));
  for (const std::string& name : numbers)
    html += fmt::format("<th><button>{}</button></th>", escape_html(name));
  return html + "</tr></thead><tbody>\n";
}

std::string value_table(const std::vector<std::string>& columns,
                        const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string html = "<div class=\"wide\"><table class=\"values\">";
  if (!columns.empty()) {
    html += "<thead><tr>";
    for (const std::string& name : columns) html += fmt::format("<th>{}</th>", escape_html(name));
    html += "</tr></thead>";
  }
  html += "<tbody>\n";
  for (const auto& row : rows) {
    html += fmt::format("<tr><th>{}</th>", escape_html(row[0]));
    for (std::size_t i = 1; i < row.size(); ++i)
      html += fmt::format("<td>{}</td>", escape_html(row[i]));
    html += "</tr>\n";
  }
  return html + kTableEnd;
}

}  // namespace hg::report
