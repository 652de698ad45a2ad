#include "train/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tensor/base/text.h"
#include "train/report/style.h"

namespace hg::report {

std::string document_start(const std::string& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{}</title><link rel=\"icon\" "
      "href=\"data:,\"><style>{}</style></head><body>\n",
      escape_html(title), kStyle);
}

std::string document_end() { return fmt::format("<script>{}</script></body></html>\n", kScript); }

std::string figure(const std::string& title, const std::string& body, const std::string& caption) {
  return fmt::format("<figure><h3>{}</h3>\n{}<figcaption>{}</figcaption></figure>\n",
                     escape_html(title), body, escape_html(caption));
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
std::string label_cell(const std::string& text) {
  return fmt::format("<td class=\"text\">{}</td>", escape_html(text.empty() ? "-" : text));
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

std::string name_among(const RunRecord& run, const std::vector<RunRecord>& runs) {
  const auto same = [&](const RunRecord& r) { return r.name == run.name; };
  return std::count_if(runs.begin(), runs.end(), same) > 1 ? run.folder : run.name;
}

std::string relative_bounds(const RunRecord& run) {
  if (run.energy_j.value <= 0) return "no energy was measured";
  return fmt::format("95 % interval of the energy: {:+.0f} % to {:+.0f} %",
                     100 * (run.energy_j.low / run.energy_j.value - 1),
                     100 * (run.energy_j.high / run.energy_j.value - 1));
}

Interval share_of(double share, double n) {
  constexpr double z = 1.96;
  const double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half =
      z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return {share, std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace hg::report
