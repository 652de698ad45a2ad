// hgtrain report: a page on a run, on several side by side, or on an experiment.
#include <fmt/format.h>

#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/experiment/stored.h"
#include "train/report/page.h"
#include "train/store/run_folder.h"

namespace hg {

int report_command(const ReportOptions& options) {
  const std::vector<std::string>& folders = options.folders;
  const bool one = folders.size() == 1;
  const std::string path = !options.out.empty() ? options.out
                           : one                ? RunFolder{folders[0]}.report()
                                                : "report.html";
  for (const std::string& folder : folders)
    usage_require(one || !experiment::is_experiment(folder), folder,
                  "is an experiment's; expected it alone, or run folders (its own are in {}/runs)",
                  folder);
  if (experiment::is_experiment(folders[0]))
    write_file(path, to_page(experiment::read_results(folders[0])));
  else
    report::write(folders, path);
  fmt::print("{}\n", path);
  return 0;
}

}  // namespace hg
