// A meter that was considered: what became of it, why, and the one command that would enable it.
#pragma once

#include <memory>
#include <string>

#include "energy/meters/meter.h"

namespace hg::energy {

enum class Verdict : std::uint8_t { used, rejected, absent };
std::string_view to_string(Verdict verdict);

struct Candidate {
  std::string name;
  Verdict verdict = Verdict::absent;
  std::string reason;  // one line
  std::string enable;  // a command; empty where there is nothing to do or none would help
};

// If there is a meter, the verdict is `used`; the chooser may still reject it if it does not move.
struct Opened {
  Candidate candidate;
  std::unique_ptr<Meter> meter;
};

inline Opened refused(const char* name, Verdict verdict, std::string reason,
                      std::string enable = "") {
  return {{name, verdict, std::move(reason), std::move(enable)}, nullptr};
}

}  // namespace hg::energy
