#include "energy/output/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace hg::energy {
namespace {

constexpr std::size_t kBuffer = 1 << 16;

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

}  // namespace

ChromeTrace::ChromeTrace(Write write, std::uint64_t most) : write_(std::move(write)), most_(most) {
  buffer_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  buffer_ += R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"hg"}})";
}

void ChromeTrace::put(std::string_view event) {
  buffer_ += ",\n";
  buffer_ += event;
  if (buffer_.size() >= kBuffer) flush();
}

void ChromeTrace::flush() {
  write_(buffer_);
  buffer_.clear();
}

void ChromeTrace::activity(std::size_t thread, const Activity& a, const RowTable& rows) {
  if (ops_ >= most_) {
    ++left_out_;
    return;
  }
  ++ops_;
  for (std::size_t t = tracks_.size(); t <= thread; ++t) {
    tracks_.emplace_back();
    put(fmt::format(
        R"({{"ph":"M","pid":1,"tid":{0},"name":"thread_name","args":{{"name":"worker {0}"}}}})",
        t));
  }
  const auto& [levels, op] = names_of(a.row, rows);
  Track& track = tracks_[thread];
  const auto shared =
      std::mismatch(track.open.begin(), track.open.end(), levels.begin(), levels.end());
  close_to(thread, static_cast<std::size_t>(shared.first - track.open.begin()));
  for (auto level = levels.begin() + static_cast<std::ptrdiff_t>(track.open.size());
       level != levels.end(); ++level) {
    put(fmt::format(R"({{"ph":"B","pid":1,"tid":{},"ts":{:.3f},"name":{}}})", thread,
                    us(a.start_ns), *level));
    track.open.push_back(*level);
  }
  put(fmt::format(R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},)"
                  R"("args":{{"flops":{},"bytes":{}}}}})",
                  thread, us(a.start_ns), static_cast<double>(a.end_ns - a.start_ns) * 1e-3, op,
                  a.flops(), a.bytes));
  track.last_ns = a.end_ns;
}

const ChromeTrace::Names& ChromeTrace::names_of(RowId row, const RowTable& rows) {
  for (auto r = static_cast<RowId>(names_.size()); r <= row; ++r) {
    const RowLabel label = rows.label(r);
    Names names{{json_text(label.phase)}, json_text(label.op)};
    for (const std::string_view level : levels_of(label)) names.levels.push_back(json_text(level));
    names_.push_back(std::move(names));
  }
  return names_[row];
}

void ChromeTrace::close_to(std::size_t thread, std::size_t depth) {
  Track& track = tracks_[thread];
  for (; track.open.size() > depth; track.open.pop_back())
    put(fmt::format(R"({{"ph":"E","pid":1,"tid":{},"ts":{:.3f}}})", thread, us(track.last_ns)));
}

void ChromeTrace::reading(const Reading& reading) {
  if (left_out_ > 0) return;
  if (!last_) start_ns_ = reading.time_ns;
  if (last_ && reading.time_ns > last_->time_ns) {
    std::string watts;
    for (std::size_t d = 0; d < kDomains; ++d)
      if (reading.domains[d]) {
        const Joules joules = to_joules(reading.domains[d]->energy - last_->domains[d]->energy);
        watts += fmt::format("{}\"{}\":{:.3f}", watts.empty() ? "" : ",", name_of_domain(d),
                             (joules / from_ns(reading.time_ns - last_->time_ns)).value);
      }
    put(fmt::format(R"({{"ph":"C","pid":1,"ts":{:.3f},"name":"watts","args":{{{}}}}})",
                    us(last_->time_ns), watts));
  }
  last_ = reading;
}

void ChromeTrace::finish() {
  if (std::exchange(finished_, true)) return;
  for (std::size_t t = 0; t < tracks_.size(); ++t) close_to(t, 0);
  buffer_ +=
      fmt::format("\n],\"otherData\":{{\"ops\":{},\"ops_left_out\":{}}}}}\n", ops_, left_out_);
  flush();
}

}  // namespace hg::energy
