// A trace in a file that is whole or not there. It is not worth a run: when it cannot be written,
// the run goes on without it.
#pragma once

#include "energy/output/trace.h"
#include "tensor/base/error.h"
#include "tensor/base/files.h"

namespace hg {

class TraceFile {
 public:
  TraceFile(const std::string& path, std::uint64_t most_ops)
      : file_(path), trace_([this](std::string_view text) { write(text); }, most_ops) {}
  energy::ChromeTrace& trace() { return trace_; }
  void commit() {
    trace_.finish();
    attempt([&] { file_.commit(); });
  }
  const std::string& failure() const { return failure_; }  // empty: none

 private:
  void write(std::string_view text) {
    attempt([&] { file_.write(text); });
  }
  template <class Action>
  void attempt(Action action) {
    if (!failure_.empty()) return;
    try {
      action();
    } catch (const Error& e) {
      failure_ = e.what();
    }
  }

  AtomicFile file_;
  std::string failure_;
  energy::ChromeTrace trace_;
};

}  // namespace hg
