// Profiles what runs while it is alive: an observer notes op calls, a thread reads the meter, and
// the attribution shares the energy out interval by interval. Memory does not grow with the run.
//
//   energy::Session session;
//   session.begin_window("epoch");
//   ...                                                    // ops, in scopes (tensor/observer.h)
//   energy::Ledger epoch = session.end_window("epoch");
//   epoch.joules().value;                                  // of all that happened in the window
//   epoch.scope("blocks.3.mlp").joules().value;            // of the ops of a scope
//   energy::Ledger all = session.stop();
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "energy/books/ledger.h"
#include "energy/books/profiler.h"
#include "energy/books/step_sampler.h"

namespace hg::energy {

// Sees activities and readings as they are settled (a trace). Called by one thread at a time.
class ActivitySink {
 public:
  virtual ~ActivitySink() = default;
  virtual void activity(std::size_t thread, const Activity& activity, const RowTable& rows) = 0;
  virtual void reading(const Reading& reading) = 0;
};

struct SessionOptions {
  Calibration calibration = default_calibration();
  int workers = 0;  // threads that rows' seconds are divided by; 0: cpu::threads()
  Seconds period{0.02};
  // On a GPU, time ops one by one in some steps alone, so that timing them costs little.
  bool sample_steps = false;
  // Called with the books about every save_period, on the sampling thread. What it throws ends the
  // session; cut() and stop() then throw it again.
  std::function<void(const Ledger&)> save;
  Seconds save_period{0.5};
  ActivitySink* sink = nullptr;
};

// Energy of all domains since the session began, as the meter says.
struct EnergyTotal {
  std::int64_t energy_uj = 0;
  std::int64_t time_ns = 0;  // of the reading
};

class Session {
 public:
  // Begins with a reading. Made and ended while no op runs.
  Session(Meter& meter, SessionOptions options);
  // With the meter of this machine (energy/meters/choice.h). Finding it may take a second.
  explicit Session(SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // To be called between steps, while no op runs: reads the meter and closes the books at this
  // moment, so that a step, an epoch or a run begins and ends with an exact account.
  EnergyTotal cut();
  // The books of a stretch of the session, which begins and ends as with cut(). Each row is what
  // the session's row grew by, and they sum to what the meter counted meanwhile. Windows have names
  // and may overlap. Throws Error for one that is open already, or was not begun.
  void begin_window(const std::string& name);
  Ledger end_window(const std::string& name);
  // A step of training, or of phase `eval`, begins. To be called while no op runs.
  void begin_step(Phase phase);
  EnergyTotal total() const;  // as of the last reading
  // Mean power over about the last second.
  Watts power() const;
  Ledger ledger() const;  // the books as of the last interval closed; always balanced
  // Ends with a reading, checks that the books close to the microjoule, returns them. Later calls
  // return the same.
  Ledger stop();

  // Between these two there is no observer and no reading, as if there were no session; the energy
  // of that time is unattributed. To be called while no op runs, and after observers that were
  // installed later are gone.
  void pause();
  void resume();

  // For noting work outside ops, from any thread.
  Profiler& profiler() { return profiler_; }

 private:
  Session(std::unique_ptr<Meter> own, Meter* meter, SessionOptions options);
  void sample_until_stopped();
  void tick();  // on the sampling thread
  // Reads the meter and closes the books, while no op runs and with reading_ held. Gives the lock.
  std::unique_lock<std::mutex> close_books(bool at_once);
  void mark(const MeterSample& sample, bool at_once);
  NotedUntil drain();
  EnergyTotal total_of_last() const;
  MeterSample read();  // with reading_ held
  void note(MeterSample& sample);
  void rethrow_failure();
  Provenance provenance() const;
  std::int64_t own_ns() const;

  const std::unique_ptr<Meter> own_meter_;  // null: it is another's
  Meter& meter_;
  const SessionOptions options_;
  std::mutex reading_;        // of the meter, and of the order of readings; taken before mutex_
  mutable std::mutex mutex_;  // of everything below except the profiler
  std::condition_variable wake_;
  RowTable rows_;
  Attribution attribution_;
  std::map<std::string, Attribution> windows_;  // the books at their beginning
  Profiler profiler_;
  StepSampler sampler_of_steps_;
  double ns_per_call_ = 0;  // what noting a call costs
  std::int64_t sampler_ns_ = 0, cut_ns_ = 0;
  std::int64_t last_ns_ = 0;  // of the last reading that ended an interval
  std::vector<std::pair<std::int64_t, std::int64_t>> recent_;  // ring of (time, uJ)
  std::size_t next_recent_ = 0;
  bool stopping_ = false, paused_ = false;
  std::exception_ptr failure_;
  std::optional<Ledger> final_;
  std::unique_ptr<ObserverGuard> guard_;
  std::thread sampler_;
};

}  // namespace hg::energy
