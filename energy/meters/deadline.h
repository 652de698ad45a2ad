// A meter on a thread of its own, for drivers that may hang: nobody waits for it longer than a
// deadline, and a thread that never comes back from the driver is left behind.
#pragma once

#include <functional>

#include "energy/meters/candidate.h"

namespace hg::energy {

struct Deadlines {
  Seconds open{5};     // for opening it and the first reading
  Seconds read{0.05};  // for every other reading
};

// Opens the meter and reads it on the new thread. A reading that is not there in time is a fault
// (`late`): the last good one is repeated, and what may have been drawn since widens its bounds.
// While a meter is slow, its readings are taken as they come and not waited for at all.
Opened open_with_deadline(const char* name, std::function<Opened()> open, Deadlines deadlines = {});

}  // namespace hg::energy
