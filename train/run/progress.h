// What a run shows while it works: on a terminal one line, rewritten in place; elsewhere one plain
// line an epoch; nothing when quiet.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hg {

enum class ProgressMode { quiet, plain, bar };
ProgressMode progress_mode(std::FILE* out,
                           bool quiet);  // bar on a terminal that can move its cursor

// Figures beyond those that every run has ("31 W", "1.2 kJ"), most important first.
using ProgressFields = std::vector<std::string>;

struct ProgressState {
  std::string title;  // "epoch 2/5"
  double fraction = 0;
  double loss = 0, images_per_s = 0, seconds_left = 0;
  ProgressFields fields;
};

// The line for a terminal of so many columns, always shorter than that: what doesn't fit is left
// out, the fields first.
std::string render_progress(const ProgressState& state, int columns, bool color);

class Progress {
 public:
  // steps: of the whole run; done: those before a resume. The clock gives seconds.
  Progress(std::FILE* out, ProgressMode mode, std::int64_t steps, std::int64_t done = 0,
           std::function<double()> clock = {});
  ~Progress();  // leaves no bar behind
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(std::string title);  // steps follow; the time since the last one does not count
  // `fields` is asked only when a bar is drawn.
  void step(std::int64_t images, double loss, const std::function<ProgressFields()>& fields = {});
  // Lines that stay, folded on a terminal.
  void line(std::string_view text);     // such as the result of an epoch
  void note(std::string_view text);     // where there is a bar
  void warning(std::string_view text);  // also when quiet

 private:
  void clear();

  std::FILE* out_;
  ProgressMode mode_;
  std::int64_t steps_, done_;
  std::function<double()> clock_;
  ProgressState state_;
  double step_seconds_ = 0;  // running mean; 0: no step yet
  double last_step_ = 0, last_drawn_ = 0;
  bool bar_shown_ = false, color_;
};

}  // namespace hg
