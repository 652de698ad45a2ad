// A trace in a file that is whole or not there.
#pragma once

#include "energy/output/trace.h"
#include "tensor/base/files.h"

namespace hg {

class TraceFile {
 public:
  TraceFile(const std::string& path, std::uint64_t most_ops)
      : file_(path), trace_([this](std::string_view text) { file_.write(text); }, most_ops) {}
  energy::ChromeTrace& trace() { return trace_; }
  void commit() {
    trace_.finish();
    file_.commit();
  }

 private:
  AtomicFile file_;
  energy::ChromeTrace trace_;
};

}  // namespace hg
