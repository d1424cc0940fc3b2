// The ranks of a run as this rank sees them: how it came to be one of them, and what it has of the
// model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "cli/options/options.h"
#include "comm/abort_flag.h"
#include "comm/communicator.h"
#include "comm/failure_detector.h"
#include "comm/rank_link.h"
#include "distributed/model_ranks.h"

namespace fathom::cli {

// Outlives the model. One thread, that of the model, but for what says otherwise.
class RankSession {
 public:
  explicit RankSession(const RankOptions& options) : options_(options) {}

  // Once, before all else: of a process that fathom launch or mpirun has started; alone otherwise.
  // Error: also when the ranks are not the same build, which the message names.
  Status Join();

  // The others compute what this rank needs: it alone reads input and writes results.
  bool is_first() const { return all_->rank() == 0; }
  bool is_alone() const { return all_ == nullptr || all_->size() == 1; }
  Communicator& all() { return *all_; }
  // Why all ranks have to stop, once they have. Any thread.
  Status Check() const { return alarm_.Check(); }
  // From now on they have to. Any thread.
  void Fail(const Error& error) { alarm_.Raise(error); }
  // On the first rank: lets the others go, which wait for a call (engine/ranks/rank_calls.h).
  void End();
  // What is to be told of the end of this rank's command, once for all ranks: a failure is told to
  // who watches the ranks, and is quiet here (output.h: IsQuiet) unless this is who says it. Also
  // of one that has not joined.
  Status Conclude(Status status);
  // What the user should know about these ranks; empty: nothing.
  const std::string& warning() const { return warning_; }
  // Which share of the model each rank has, by the options of ranks. nullptr: this rank is alone.
  // Errors: a cut that the model does not allow; ranks that run something else (another model,
  // other options), which the message names.
  Result<const ModelRanks*> Cut(const ModelConfig& config, const Checkpoint& checkpoint);

 private:
  Status JoinMpi();
  Status CheckPrograms();
  Status CheckAgreement(const Checkpoint& checkpoint);
  RankCounts Counts(const ModelConfig& config) const;

  RankOptions options_;
  AbortFlag alarm_;
  int control_ = -1;           // to who watches this rank
  Descriptor control_of_mpi_;  // owns it, if the first rank does
  std::optional<Heartbeat> heartbeat_;
  std::optional<FailureDetector> watch_;  // of the first rank, of the others
  std::string warning_;
  std::unique_ptr<Communicator> all_;
  std::unique_ptr<RankGroups> groups_;
};

}  // namespace fathom::cli
