#include "train/ranks/launcher.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tensor/base/usage_error.h"
#include "train/ranks/module.h"

namespace hg {
namespace {

constexpr Module kMpi{"libhg_mpi.so", kMakeTransport, "HG_MPI", "MPI"};

// As many tasks as the variable says; 0: it does not.
int tasks_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

// Of the step that srun started; a job script, too, has SLURM_NTASKS, but no step.
int tasks_of_slurm() {
  if (!std::getenv("SLURM_STEP_ID")) return 0;
  return std::max(tasks_in("SLURM_STEP_NUM_TASKS"), tasks_in("SLURM_NTASKS"));
}

// Before ranks know each other, one is to tell what is wrong for all.
bool tells_for_all() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const char* const rank = std::getenv(variable)) return std::atoi(rank) == 0;
  return true;
}

std::unique_ptr<Transport> load_transport(const std::string& launcher) {
  try {
    const auto make = reinterpret_cast<MakeTransport>(function_of(kMpi, launcher));
    return std::unique_ptr<Transport>(make());
  } catch (const UsageError&) {
    if (!tells_for_all()) ::_exit(2);
    throw;
  }
}

// With the wrong plugin, srun starts so many processes that know nothing of each other.
void check_size(const Ranks& ranks) {
  const int tasks = tasks_of_slurm();
  usage_require(ranks.size() > 1 || tasks <= 1, "srun",
                "started {} tasks, but MPI sees 1: use srun --mpi=pmix (srun --mpi=list shows what "
                "there is)",
                tasks);
}

// Returns where this rank is the one to tell the user.
void fail_with(Ranks& all, int code) {
  if (!all.fail(code)) ::_exit(code);
}

}  // namespace

std::string launcher() {
  if (tasks_of_slurm() > 1) return "srun";
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (tasks_in(variable) > 1) return "mpirun";
  return "";
}

int on_ranks(const std::function<int()>& body) {
  const std::string by = launcher();
  if (by.empty()) return body();
  Ranks all(load_transport(by), this_place());
  check_size(all);
  const RanksScope scope(all);
  try {
    const int code = body();
    all.finish();
    return code;
  } catch (const OtherRankFailed& e) {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // for its message
    ::_exit(e.code);
  } catch (const UsageError&) {
    fail_with(all, 2);
    throw;
  } catch (...) {
    fail_with(all, 1);
    throw;
  }
}

}  // namespace hg
