#include "train/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tensor/base/clock.h"
#include "tensor/base/columns.h"
#include "tensor/base/text.h"

namespace hg {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kNewestWeight = 0.05;  // of a step in the running mean
constexpr std::size_t kWidestBar = 30, kNarrowestBar = 8;

int bar_columns(std::FILE* out) {
  constexpr int kUsual = 80;
  const auto columns = static_cast<int>(std::min<std::size_t>(columns_of(out), 1000));
  return columns > 0 ? columns : kUsual;
}

bool wants_color() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

std::string bar(std::size_t width, double fraction, bool color) {
  const auto full = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(width)));
  const std::string done(full, '#'), rest(width - full, '-');
  return color ? fmt::format("[\x1b[32m{}\x1b[2;39m{}\x1b[0m]", done, rest)
               : fmt::format("[{}{}]", done, rest);
}

}  // namespace

ProgressMode progress_mode(std::FILE* out, bool quiet) {
  if (quiet) return ProgressMode::quiet;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(fileno(out)) && !dumb ? ProgressMode::bar : ProgressMode::plain;
}

std::string render_progress(const ProgressState& state, int columns, bool color) {
  const std::size_t room = columns > 1 ? static_cast<std::size_t>(columns - 1) : 0;
  const double fraction = std::clamp(std::isnan(state.fraction) ? 0 : state.fraction, 0.0, 1.0);
  std::string text = fmt::format(" {:3.0f}%", std::floor(fraction * 100));
  std::vector<std::string> figures = {
      fmt::format("loss {:.4f}", state.loss),
      fmt::format("{} left", format_duration(state.seconds_left)),
      fmt::format("{:.{}f} images/s", state.images_per_s, state.images_per_s < 100 ? 1 : 0)};
  figures.insert(figures.end(), state.fields.begin(), state.fields.end());
  for (const std::string& figure : figures) {
    if (state.title.size() + kNarrowestBar + 3 + text.size() + 2 + figure.size() > room) break;
    text += "  " + figure;
  }
  const std::size_t used = state.title.size() + text.size() + 3;  // a blank and two brackets
  if (used + kNarrowestBar > room) return (state.title + text).substr(0, room);
  return state.title + " " + bar(std::min(kWidestBar, room - used), fraction, color) + text;
}

Progress::Progress(std::FILE* out, ProgressMode mode, std::int64_t steps, std::int64_t done,
                   std::function<double()> clock)
    : out_(out),
      mode_(mode),
      steps_(steps),
      done_(done),
      clock_(clock ? std::move(clock) : [] { return seconds_since(0); }),
      color_(wants_color()) {}

Progress::~Progress() { clear(); }

void Progress::begin(std::string title) {
  state_.title = std::move(title);
  last_step_ = clock_();
}

void Progress::step(std::int64_t images, double loss,
                    const std::function<ProgressFields()>& fields) {
  ++done_;
  if (mode_ != ProgressMode::bar) return;
  const double now = clock_(), seconds = now - last_step_;
  last_step_ = now;
  step_seconds_ =
      step_seconds_ == 0 ? seconds : step_seconds_ + kNewestWeight * (seconds - step_seconds_);
  if (bar_shown_ && now - last_drawn_ < kRedrawSeconds) return;
  last_drawn_ = now;
  state_.fraction = steps_ > 0 ? static_cast<double>(done_) / static_cast<double>(steps_) : 0;
  state_.loss = loss;
  state_.images_per_s = step_seconds_ > 0 ? static_cast<double>(images) / step_seconds_ : 0;
  state_.seconds_left =
      static_cast<double>(std::max<std::int64_t>(steps_ - done_, 0)) * step_seconds_;
  state_.fields = fields ? fields() : ProgressFields{};
  fmt::print(out_, "\r{}\x1b[K", render_progress(state_, bar_columns(out_), color_));
  std::fflush(out_);
  bar_shown_ = true;
}

void Progress::line(std::string_view text) {
  if (mode_ != ProgressMode::quiet) warning(text);
}

void Progress::warning(std::string_view text) {
  clear();
  fmt::print(out_, "{}\n", folded_lines(text, columns_of(out_)));
  std::fflush(out_);
}

void Progress::note(std::string_view text) {
  if (mode_ == ProgressMode::bar) line(text);
}

void Progress::clear() {
  if (!bar_shown_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  bar_shown_ = false;
}

}  // namespace hg
