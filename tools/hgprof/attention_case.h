// One attention layer alone, on random tokens: what its core costs. The core is all but the
// projections (nn/METHODS.md, section 2).
#pragma once

#include "energy/books/session.h"
#include "nn/attention/attention.h"

namespace hg::prof {

enum class Pass { forward, training };  // training: forward and backward

struct CaseOptions {
  nn::AttentionOptions attention;  // .tokens is the length
  double pruned = 0;               // share of pairs that fiak_pruned lacks, chosen by random priors
  std::uint64_t seed = 1;
};

class AttentionCase {
 public:
  // A hollow one can be counted, but not run.
  explicit AttentionCase(const CaseOptions& options, bool hollow = false);

  void call(Pass pass) const;
  // Bytes that the layer holds: its input, its parameters, and the index of pruned pairs.
  std::uint64_t held_bytes() const { return held_bytes_; }
  std::int64_t parameters() const { return parameters_.count(); }

 private:
  std::uint64_t held_bytes_ = 0;
  nn::Parameters parameters_;
  std::unique_ptr<nn::Attention> attention_;
  Tensor x_, gradient_;  // [1, N, E]
};

// Exact, without running it.
Cost core_cost(const AttentionCase& layer, Pass pass);

// The most memory in use at a time in one call, with what the layer holds.
std::uint64_t peak_bytes(const AttentionCase& layer, Pass pass);

// Of one call.
struct CoreFigures {
  double seconds = 0;  // of the fastest call: thread time with one thread, else wall time
  double joules = 0;   // the mean
  energy::Kind kind = energy::Kind::unavailable;
};
// Repeats calls for at least that long.
CoreFigures measure_core(const AttentionCase& layer, Pass pass, energy::Meter& meter,
                         double seconds);

// The sum of the core's rows.
energy::LedgerRow core_row(const energy::Ledger& ledger);

}  // namespace hg::prof
