// A trace for Chrome or Perfetto: a track for each thread, with ops nested by phase and layer, and
// a track of power. It is written as it goes, so it takes little memory, and a file that was cut
// short still opens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "energy/books/session.h"

namespace hg::energy {

class ChromeTrace final : public ActivitySink {
 public:
  using Write = std::function<void(std::string_view)>;
  static constexpr std::uint64_t kMostOps = 2'000'000;
  // Stops recording, power as well, after `most` ops: viewers choke on more.
  explicit ChromeTrace(Write write, std::uint64_t most = kMostOps);

  void activity(std::size_t thread, const Activity& activity, const RowTable& rows) override;
  void reading(const Reading& reading) override;
  // Closes what is open and ends the file, with the number of ops that were left out.
  void finish();
  std::uint64_t ops_left_out() const { return left_out_; }
  Seconds recorded() const { return last_ ? from_ns(last_->time_ns - start_ns_) : Seconds{}; }

 private:
  struct Names {
    std::vector<std::string> levels;  // phase, then the layer's path; in quotes, as the op
    std::string op;
  };
  // Of a thread: the levels that are open (phase, then the layer's path), and the end of its last
  // op.
  struct Track {
    std::vector<std::string> open;
    std::int64_t last_ns = 0;
  };
  const Names& names_of(RowId row, const RowTable& rows);
  void close_to(std::size_t thread, std::size_t depth);
  void put(std::string_view event);
  void flush();
  double us(std::int64_t ns) const { return static_cast<double>(ns - start_ns_) * 1e-3; }

  const Write write_;
  const std::uint64_t most_;
  std::uint64_t ops_ = 0, left_out_ = 0;
  std::int64_t start_ns_ = 0;
  std::optional<Reading> last_;
  std::vector<Track> tracks_;
  std::vector<Names> names_;  // by row, once looked up
  std::string buffer_;
  bool finished_ = false;
};

}  // namespace hg::energy
