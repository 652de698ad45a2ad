// Runs that are stopped on their way must end, resumed, as if nothing had happened.
#pragma once

#include <functional>

#include "tests/support/program.h"

namespace hg::testing {

// The arguments that train into a folder, as a new run or with --resume.
using TrainInto = std::function<Arguments(const std::string& run, const Arguments& more)>;

// Starts the program and sends the signal after the event, in time as long as two lines of stderr
// were to come after it.
void stop_when(const std::function<bool(Child&)>& event, int signal, const Arguments& arguments);
// The event is a line of stderr with `part` in it.
void stop_at(const std::string& part, int signal, const Arguments& arguments);

// The bytes of a safetensors file behind its header, whose metadata hold times.
std::string tensors_in(const std::string& path);

// The same weights, moments, figures and files. Times and energies differ.
void check_same_result(const std::string& run, const std::string& whole);
// And the same settings.
void check_same_end(const std::string& run, const std::string& whole);

// Trains in one go, and stopped at random moments, by SIGKILL and SIGINT in turn.
void check_survives_stops(const TrainInto& train, int stops = 12);

}  // namespace hg::testing
