// Which classes the last evaluation took for which: a matrix, or of many classes the pairs that
// were mixed up most.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "train/report/html.h"
#include "train/report/sections.h"

namespace hg::report {
namespace {

constexpr std::size_t kMostClasses = 20;  // of a matrix
constexpr std::size_t kMostPairs = 20;

struct Classes {
  std::map<std::int64_t, std::string> names;
  std::map<std::int64_t, std::int64_t> images;  // by their true class
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> pairs;

  explicit Classes(const std::vector<ConfusionRow>& rows) {
    for (const ConfusionRow& row : rows) {
      names[row.truth] = row.truth_name;
      names[row.predicted] = row.predicted_name;
      images[row.truth] += row.images;
      pairs[{row.truth, row.predicted}] += row.images;
    }
  }
  double share(std::int64_t truth, std::int64_t predicted) const {
    const auto pair = pairs.find({truth, predicted});
    const auto all = images.find(truth);
    if (pair == pairs.end() || all->second == 0) return 0;
    return static_cast<double>(pair->second) / static_cast<double>(all->second);
  }
};

std::string matrix_cell(const Classes& classes, std::int64_t truth, std::int64_t predicted) {
  const auto found = classes.pairs.find({truth, predicted});
  if (found == classes.pairs.end()) return "<td></td>";
  const double share = classes.share(truth, predicted);
  return fmt::format(
      "<td style=\"background:rgb(var(--heat)/{:.2f})\" data-tip=\"{}\">{}</td>", 0.7 * share,
      escape_html(fmt::format("{} of {} images of {} were taken for {}, {:.1f} %", found->second,
                              classes.images.at(truth), classes.names.at(truth),
                              classes.names.at(predicted), 100 * share)),
      found->second);
}

std::string matrix(const Classes& classes) {
  std::string html = "<div class=\"wide\"><table class=\"matrix\"><thead><tr><th></th>";
  for (const auto& [index, name] : classes.names)
    html += fmt::format("<th>{}</th>", escape_html(name));
  html += "</tr></thead><tbody>\n";
  for (const auto& [truth, name] : classes.names) {
    html += fmt::format("<tr><th>{}</th>", escape_html(name));
    for (const auto& [predicted, other] : classes.names)
      html += matrix_cell(classes, truth, predicted);
    html += "</tr>\n";
  }
  return html + kTableEnd;
}

std::string worst_pairs(const Classes& classes) {
  std::vector<std::pair<std::int64_t, std::pair<std::int64_t, std::int64_t>>> wrong;
  for (const auto& [pair, images] : classes.pairs)
    if (pair.first != pair.second) wrong.push_back({images, pair});
  std::stable_sort(wrong.begin(), wrong.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  wrong.resize(std::min(wrong.size(), kMostPairs));
  std::string html = table_head({"true class", "taken for"}, {"images", "% of the true class"});
  for (const auto& [images, pair] : wrong)
    html += "<tr>" + label_cell(classes.names.at(pair.first)) +
            label_cell(classes.names.at(pair.second)) + cell(static_cast<double>(images), 0) +
            cell(100 * classes.share(pair.first, pair.second), 1) + "</tr>\n";
  return html + kTableEnd;
}

}  // namespace

std::string confusion(const RunRecord& run) {
  if (run.confusion.empty()) return "";
  const Classes classes(run.confusion);
  if (classes.names.size() > kMostClasses)
    return figure("Classes mixed up most", worst_pairs(classes),
                  "Of the last evaluation. confusion.csv has all pairs.");
  return figure("Confusion matrix", matrix(classes),
                "Test images of the last evaluation: rows are true classes, columns those "
                "predicted.");
}

}  // namespace hg::report
