#include "train/store/growing_csv.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

// Calls take(row, end) for each whole row, `end` being the place behind it in the text, until it
// gives false. False: the text does not begin with the header.
bool for_each_row(std::string_view text, const std::string& header,
                  const std::function<bool(NumberRow&&, std::size_t end)>& take) {
  if (!text.starts_with(header + "\n")) return false;
  const std::size_t columns = hg::split(header, ',').size();
  for (std::size_t at = header.size() + 1;;) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return true;
    NumberRow row;
    for (const std::string_view field : hg::split(text.substr(at, end - at), ','))
      if (const auto number = parse_number<double>(field); number && std::isfinite(*number))
        row.push_back(*number);
    if (row.size() != columns || !take(std::move(row), end + 1)) return true;
    at = end + 1;
  }
}

}  // namespace

std::vector<NumberRow> read_growing_csv(const std::string& path, const std::string& header) {
  std::vector<NumberRow> rows;
  if (!is_file(path)) return rows;
  const bool known = for_each_row(read_text(path), header, [&](NumberRow&& row, std::size_t) {
    rows.push_back(std::move(row));
    return true;
  });
  usage_require(known, path, "expected the columns {}", header);
  return rows;
}

GrowingCsv::GrowingCsv(std::string path, const std::string& header,
                       const std::function<bool(const NumberRow&)>& keep)
    : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::string before = is_file(path_) ? read_text(path_) : "";
  std::size_t kept = header.size() + 1;
  const bool goes_on = for_each_row(before, header, [&](NumberRow&& row, std::size_t end) {
    if (!keep(row)) return false;
    kept = end;
    return true;
  });
  if (!goes_on || kept != before.size())
    write_file(path_, goes_on ? before.substr(0, kept) : header + "\n");
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) fail(path_, "cannot write: {}", std::strerror(errno));
}

GrowingCsv::~GrowingCsv() {
  if (fd_ >= 0) ::close(fd_);
}

void GrowingCsv::add(const std::string& line) { waiting_ += line + "\n"; }

std::string GrowingCsv::flush() {
  if (path_.empty()) waiting_.clear();
  while (!waiting_.empty()) {
    const ssize_t n = ::write(fd_, waiting_.data(), waiting_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fmt::format("{}: cannot write: {}", path_, std::strerror(errno));
    waiting_.erase(0, static_cast<std::size_t>(n));
  }
  return "";
}

}  // namespace hg
