// hgtrain report: a page on a run, or on several side by side.
#include <fmt/format.h>

#include "train/commands/commands.h"
#include "train/report/page.h"
#include "train/store/run_folder.h"

namespace hg {

int report_command(const ReportOptions& options) {
  const std::string path = !options.out.empty()          ? options.out
                           : options.folders.size() == 1 ? RunFolder{options.folders[0]}.report()
                                                         : "report.html";
  report::write(options.folders, path);
  fmt::print("{}\n", path);
  return 0;
}

}  // namespace hg
