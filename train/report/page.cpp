#include "train/report/page.h"

#include <fmt/format.h>

#include "tensor/base/files.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace hg::report {
namespace {

constexpr std::size_t kEnd = 1000;  // bytes kept for the closing lines

class Page {
 public:
  Page(const std::string& title, bool live) : html_(document_start(title, live)) {}
  void add(const std::string& html) { html_ += html; }
  // Leaves it out where the page would become too large.
  void add_if_it_fits(const std::string& html, const std::string& what) {
    if (html_.size() + html.size() + size_of_end() + kEnd <= kMostBytes)
      html_ += html;
    else
      left_out_ += fmt::format("{}{}", left_out_.empty() ? "" : ", ", what);
  }
  std::string end() {
    if (!left_out_.empty() && left_out_.size() < kEnd / 2)
      html_ += paragraph(fmt::format("Left out to keep the page small: {}.", left_out_), "soft");
    else if (!left_out_.empty())
      html_ += paragraph("Much was left out to keep the page small.", "soft");
    return html_ + document_end();
  }

 private:
  std::string html_, left_out_;
};

void add_joules(Page& page, const RunRecord& run, const std::string& name) {
  page.add_if_it_fits(phases(run), "phases of " + name);
  page.add_if_it_fits(flame(run), "flame graph of " + name);
  page.add_if_it_fits(top_rows(run), "rows of " + name);
}

std::string subtitle(const RunRecord& run) {
  const auto done = static_cast<std::int64_t>(run.epochs.size());
  const bool whole_known = run.settings && run.settings->phases.size() == 1;
  const std::int64_t all = whole_known ? run.settings->phases[0].train.epochs : done;
  std::string text = fmt::format("{}: {}", run.status, done);
  if (whole_known) text += fmt::format(" of {}", all);
  text += all == 1 ? " epoch" : " epochs";
  if (!run.steps.empty()) text += fmt::format(" and {} steps done", run.steps.size());
  return text + fmt::format(", folder {}", run.folder);
}

std::string single(const RunRecord& run, bool live) {
  Page page("Run " + run.name, live);
  page.add(heading(1, run.name) + paragraph(subtitle(run), "soft"));
  page.add(paragraph(provenance_of({run}), "soft"));
  if (const std::string doubts = run.doubts(); !doubts.empty()) page.add(paragraph(doubts));
  page.add(cards(run));
  page.add(heading(2, "Training") + curves({run}));
  if (const std::string matrix = confusion(run); !matrix.empty())
    page.add_if_it_fits(heading(2, "Classes") + matrix, "classes");
  page.add(heading(2, "Where the joules went"));
  add_joules(page, run, run.name);
  if (run.prediction.made())
    page.add(heading(2, "Prediction") + "<div class=\"charts\">" + prediction(run) + "</div>\n");
  page.add_if_it_fits(heading(2, "How it was made") + origin(run), "host and command");
  page.add_if_it_fits(configuration(run), "configuration");
  return page.end();
}

// All on one run of several, to be opened.
void add_details(Page& page, const RunRecord& run, const std::string& name) {
  page.add("<details class=\"run\"><summary>" + escape_html(name) + "</summary>\n");
  page.add_if_it_fits(paragraph(subtitle(run), "soft") + paragraph(run.doubts(), "soft") +
                          cards(run) + confusion(run),
                      "figures of " + name);
  add_joules(page, run, name);
  page.add_if_it_fits(origin(run) + configuration(run), "host and configuration of " + name);
  page.add("</details>\n");
}

std::string several(const std::vector<RunRecord>& runs, bool live) {
  const std::vector<std::string> names = names_of(runs);
  Page page(fmt::format("{} runs", runs.size()), live);
  page.add(heading(1, fmt::format("{} runs side by side", runs.size())));
  page.add(paragraph(provenance_of(runs), "soft"));
  page.add(heading(2, "Comparison"));
  page.add_if_it_fits(comparison(runs), "comparison");
  page.add_if_it_fits(settings_that_differ(runs), "settings");
  page.add(heading(2, "Training"));
  page.add_if_it_fits(curves(runs), "training curves");
  page.add(heading(2, "Each run"));
  for (std::size_t i = 0; i < runs.size(); ++i) add_details(page, runs[i], names[i]);
  return page.end();
}

}  // namespace

std::string page(const std::vector<RunRecord>& runs, bool live) {
  return runs.size() == 1 ? single(runs[0], live) : several(runs, live);
}

void write(const std::vector<std::string>& folders, const std::string& path) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  write_file(path, page(runs));
}

}  // namespace hg::report
