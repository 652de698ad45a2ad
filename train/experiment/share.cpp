#include "train/experiment/share.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <optional>

#include "energy/meters/choice.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/ranks/ranks.h"

namespace hg::experiment {
namespace {

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? number_in(text) : std::nullopt;
}

// Of a job array whose indices follow one another.
RunShare share_of_job() {
  const auto id = number_of("SLURM_ARRAY_TASK_ID"), first = number_of("SLURM_ARRAY_TASK_MIN"),
             last = number_of("SLURM_ARRAY_TASK_MAX"), count = number_of("SLURM_ARRAY_TASK_COUNT");
  if (!id || !first || !last || !count) return {};
  usage_require(*last - *first + 1 == *count, "SLURM_ARRAY_TASK_ID",
                "expected a job array without gaps, got {} tasks from {} to {}; --share I/N says "
                "which share this is",
                *count, *first, *last);
  return {*id - *first + 1, *count};
}

}  // namespace

RunShare RunShare::part(std::int64_t place, std::int64_t parts) const {
  return {(index - 1) * parts + place + 1, count * parts};
}

std::string RunShare::text() const { return fmt::format("share {} of {}", index, count); }

std::vector<PlannedRun> RunShare::of(const std::vector<PlannedRun>& runs, const Plan& plan) const {
  std::vector<PlannedRun> own;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(own), [&](const PlannedRun& run) {
    return (run.seed - plan.first_seed) % count == index - 1;
  });
  return own;
}

RunShare share_from(const std::string& text) {
  if (text.empty()) return share_of_job();
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto index = number_in(std::string_view(text).substr(0, slash)),
             count = number_in(std::string_view(text).substr(std::min(slash + 1, text.size())));
  usage_require(index && count && *index >= 1 && *index <= *count, "--share",
                "expected I/N with I from 1 to N, got {}", printable(text));
  return {*index, *count};
}

// A name of the kernel's: it goes with the process, whatever becomes of it.
MachineClaim::MachineClaim(const RunShare& share) {
  if (share.whole() || !ranks().reads_meters()) return;
  const energy::MeterChoice choice = energy::open_meter();
  if (choice.meter->kind() == energy::Kind::modelled) return;
  constexpr std::string_view kName = "huggingreen-share";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(kName.begin(), kName.end(), address.sun_path + 1);
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kName.size());
  if (socket_ >= 0 && ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0)
    return;
  if (socket_ >= 0) ::close(socket_);
  usage_fail("experiment",
             "another share of an experiment measures on this machine, and {} counts all of it: "
             "expected one share a machine",
             choice.meter->name());
}

MachineClaim::~MachineClaim() {
  if (socket_ >= 0) ::close(socket_);
}

}  // namespace hg::experiment
