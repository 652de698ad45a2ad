#include "train/report/page.h"

#include <fmt/format.h>

#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "train/report/html.h"
#include "train/report/sections.h"
#include "train/report/style.h"

namespace hg::report {
namespace {

constexpr std::size_t kEnd = 1000;  // bytes kept for the closing lines

class Page {
 public:
  explicit Page(const std::string& title) : html_(document_start(title)) {}
  void add(const std::string& html) { html_ += html; }
  // Leaves it out where the page would become too large.
  void add_if_it_fits(const std::string& html, const std::string& what) {
    if (html_.size() + html.size() + kScript.size() + kEnd <= kMostBytes)
      html_ += html;
    else
      left_out_ += fmt::format("{}{}", left_out_.empty() ? "" : ", ", what);
  }
  std::string end() {
    if (!left_out_.empty() && left_out_.size() < kEnd / 2)
      html_ += fmt::format("<p class=\"soft\">Left out to keep the page small: {}.</p>\n",
                           escape_html(left_out_));
    else if (!left_out_.empty())
      html_ += "<p class=\"soft\">Much was left out to keep the page small.</p>\n";
    return html_ + document_end();
  }

 private:
  std::string html_, left_out_;
};

std::string heading(int level, const std::string& text) {
  return fmt::format("<h{0}>{1}</h{0}>\n", level, escape_html(text));
}

void add_run(Page& page, const RunRecord& run, const std::string& name) {
  page.add_if_it_fits(phases(run), "phases of " + name);
  page.add_if_it_fits(flame(run), "flame graph of " + name);
  page.add_if_it_fits(top_rows(run), "rows of " + name);
  page.add_if_it_fits(details(run), "configuration of " + name);
}

std::string single(const RunRecord& run) {
  Page page("Run " + run.name);
  page.add(heading(1, run.name));
  page.add(fmt::format("<p class=\"soft\">{}, {} epochs. {}.</p>\n", escape_html(run.status),
                       run.epochs.size(), escape_html(run.source_text())));
  page.add(cards(run));
  page.add(heading(2, "Training"));
  page.add(curves({run}));
  page.add(heading(2, "Where the joules went"));
  add_run(page, run, run.name);
  if (run.prediction.made())
    page.add(heading(2, "Prediction") + "<div class=\"charts\">" + prediction(run) + "</div>");
  return page.end();
}

std::string several(const std::vector<RunRecord>& runs) {
  Page page(fmt::format("{} runs", runs.size()));
  page.add(heading(1, fmt::format("{} runs side by side", runs.size())));
  page.add(heading(2, "Comparison"));
  page.add_if_it_fits(comparison(runs), "comparison");
  page.add(heading(2, "Training"));
  page.add_if_it_fits(curves(runs), "training curves");
  for (const RunRecord& run : runs) {
    const std::string name = name_among(run, runs);
    page.add_if_it_fits(
        heading(2, name) +
            fmt::format("<p class=\"soft\">{}.</p>\n", escape_html(run.source_text())) + cards(run),
        "figures of " + name);
    add_run(page, run, name);
  }
  return page.end();
}

}  // namespace

std::string page(const std::vector<RunRecord>& runs) {
  return runs.size() == 1 ? single(runs[0]) : several(runs);
}

void write(const std::vector<std::string>& folders, const std::string& path) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  write_file(path, page(runs));
}

}  // namespace hg::report
