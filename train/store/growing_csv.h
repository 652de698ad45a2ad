// A CSV file of numbers that grows line by line while a run goes on. What a kill cut short, or a
// resumed run does again, is dropped: no row comes twice.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tensor/base/no_copy.h"

namespace hg {

using NumberRow = std::vector<double>;

// The rows up to the first that is not whole: the file may be written to right now. None where
// there is no such file.
std::vector<NumberRow> read_growing_csv(const std::string& path, const std::string& header);

class GrowingCsv : NoCopy {
 public:
  // `header`: the first line, "a,b". Rows of the file that is there stay up to the first that
  // `keep` refuses. Without a path nothing is written.
  GrowingCsv(std::string path, const std::string& header,
             const std::function<bool(const NumberRow&)>& keep);
  ~GrowingCsv();

  void add(const std::string& line);  // without its end; not written before flush()
  // What could not be written stays, and the next call goes on where this one ended. Why it could
  // not; empty: all is written.
  [[nodiscard]] std::string flush();

 private:
  const std::string path_;
  std::string waiting_;
  int fd_ = -1;
};

}  // namespace hg
