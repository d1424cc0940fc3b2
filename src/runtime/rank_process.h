// RankProcess: this process as one rank of a run. Joins the other ranks, and determines this rank's
// part of the model.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "comm/abort_flag.h"
#include "comm/communicator.h"
#include "comm/failure_detector.h"
#include "comm/rank_link.h"
#include "distributed/model_ranks.h"
#include "planning/options.h"

namespace fathom::runtime {

// Must end this process. Called on another thread when ranks that mpirun started cannot continue.
// The message gives the reason, and is empty if another rank reports it.
using EndProcess = std::function<void(const Error& reason)>;

// Must outlive the model. One thread, the model's, unless a function says otherwise.
class RankProcess {
 public:
  explicit RankProcess(
      const RankOptions& options, EndProcess end_process = [](const Error&) { std::abort(); })
      : options_(options), end_process_(std::move(end_process)) {}

  // Call it once, before everything else. A process that neither fathom launch nor mpirun has
  // started is alone. Error: also if the ranks are not the same build.
  Status Join();

  // The first rank reads input and writes results; the other ranks compute their parts.
  bool is_first() const { return all_->rank() == 0; }
  bool is_alone() const { return all_ == nullptr || all_->size() == 1; }
  Communicator& all() { return *all_; }
  // Returns the reason why all ranks have to stop, once they have. Any thread.
  Status Check() const { return abort_flag_.Check(); }
  // Stops all ranks. Any thread.
  void Fail(const Error& error) { abort_flag_.Raise(error); }
  // On the first rank: ends the other ranks, which wait for a call (engine/ranks/rank_calls.h).
  void End();
  // Sends the end of this rank's command to the watcher of the ranks, so that only one rank reports
  // a failure: the error has no message if another rank reports it. Call it after a failed Join,
  // too.
  Status Conclude(Status status);
  // Returns a warning for the user about these ranks; empty: none.
  const std::string& warning() const { return warning_; }
  // Divides the model among the ranks by the options. Returns nullptr if this rank is alone.
  // Errors: a partition that the model does not allow; ranks that run another model or have other
  // options.
  Result<const ModelRanks*> Partition(const ModelConfig& config, const Checkpoint& checkpoint);

 private:
  Status JoinMpi();
  Status CheckPrograms();
  Status CheckAgreement(const Checkpoint& checkpoint);

  RankOptions options_;
  EndProcess end_process_;
  AbortFlag abort_flag_;
  int control_ = -1;           // descriptor to the watcher of this rank
  Descriptor control_of_mpi_;  // owns control_, if the first rank does
  std::optional<Heartbeat> heartbeat_;
  std::optional<FailureDetector> watch_;  // on the first rank, watches the other ranks
  std::string warning_;
  std::unique_ptr<Communicator> all_;
  std::unique_ptr<RankGroups> groups_;
};

}  // namespace fathom::runtime
