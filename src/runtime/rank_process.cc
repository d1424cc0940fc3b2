#include "runtime/rank_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/signal_mask.h"
#include "comm/mpi_module.h"
#include "comm/rank_controls.h"
#include "comm/socket_mesh.h"
#include "engine/ranks/rank_calls.h"
#include "planning/load_plan.h"
#include "runtime/build_info.h"
#include "runtime/checkpoint_fingerprint.h"

namespace fathom::runtime {
namespace {

constexpr std::chrono::seconds kEndOfAll{5};
constexpr std::chrono::seconds kLastWords{1};  // for the first rank's messages after the end
const Error kQuiet = {ErrorCode::kUnavailable, ""};

// Called by all ranks. Error: the text of a rank differs from the text of rank 0.
Status CheckSame(Communicator& all, std::string_view mine, std::string_view what) {
  std::array<char, 256> field = {};  // ends with zeros
  std::copy_n(mine.begin(), std::min(mine.size(), field.size() - 1), field.begin());
  const auto fields = all.GatherEach(field);
  if (!fields) return Unexpected(fields.error());
  const std::string_view first = fields->front().data();
  for (std::size_t rank = 1; rank < fields->size(); ++rank) {
    const std::string_view other = (*fields)[rank].data();
    if (other != first) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "rank {}: expected the {} of rank 0, \"{}\", found \"{}\"", rank, what,
                       first, other);
    }
  }
  return {};
}

// Names the rank like the failure detector, unless the message already names one.
Status NameRank(Error error, int rank) {
  if (!error.message.starts_with("rank ")) {
    error.message = fmt::format("rank {}: {}", rank, error.message);
  }
  return Unexpected(std::move(error));
}

// An mpirun of another MPI than the module's starts processes that do not see each other: each
// would run the whole model. The first process reports this for all.
Status CheckStartedAlone(const MpiStart& start) {
  if (start.n_ranks.value_or(1) == 1) return {};
  if (start.rank > 0) return Unexpected(kQuiet);
  return MakeError(ErrorCode::kInvalidArgument,
                   "started as one of {} processes, but the MPI of this build sees 1: use its own "
                   "mpirun, or fathom launch",
                   *start.n_ranks);
}

MeshEnds MakeMeshEnds(const RankLink& link) {
  MeshEnds ends;
  for (const int end : link.ends) {
    ends.emplace_back(end);
  }
  return ends;
}

}  // namespace

Status RankProcess::Join() {
  const SignalsBlocked blocked;  // blocks signals in the threads of the transport
  if (!options_.link.empty()) {
    const Result<RankLink> link = ParseRankLink(options_.link);
    if (!link) return Unexpected(link.error());
    control_ = link->control;
    heartbeat_.emplace(link->control, Watcher::kLauncher, abort_flag_);
    all_ = MakeSocketCommunicator(link->rank, MakeMeshEnds(*link), abort_flag_);
    return {};
  }
  if (options_.mpi) return JoinMpi();
  all_ = MakeSoloCommunicator();
  return {};
}

// mpirun ends all ranks when one has died, but does not notice a rank that hangs.
Status RankProcess::JoinMpi() {
  Result<std::unique_ptr<Communicator>> all = MakeMpiCommunicator(abort_flag_);
  if (!all) return Unexpected(all.error());
  all_ = *std::move(all);
  if (is_alone()) return CheckStartedAlone(*options_.mpi);
  Result<std::vector<Descriptor>> controls = ConnectControls(*all_);
  if (!controls && controls.error().code == ErrorCode::kUnsupported) {
    warning_ = fmt::format("{}: a rank that hangs will not be noticed", controls.error().message);
  } else if (!controls) {
    return Unexpected(controls.error());
  } else if (is_first()) {
    watch_.emplace(*std::move(controls), abort_flag_, end_process_);
  } else {
    control_of_mpi_ = std::move(controls->front());
    control_ = control_of_mpi_.get();
    heartbeat_.emplace(control_, Watcher::kFirstRank, abort_flag_,
                       [this](const Error&) { end_process_(kQuiet); });
  }
  return CheckPrograms();
}

// Called before any other message, whose meaning may differ from build to build. All ranks of one
// launcher have the same build.
Status RankProcess::CheckPrograms() {
  const BuildInfo build = GetBuildInfo();
  return CheckSame(*all_, fmt::format("fathom {} {}", build.version, build.commit), "program");
}

Status RankProcess::Conclude(Status status) {
  // The news of a failure comes after its consequences: wait for it.
  const auto wait = [this](std::chrono::milliseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!abort_flag_.raised() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  if (status) return status;
  if (control_ >= 0) {
    SendFailure(control_, status.error());
    if (options_.mpi) {
      wait(kEndOfAll);  // the first rank ends all ranks, and reports the reason
      // Unless the first rank is the one that hangs.
      const bool says_it = heartbeat_->has_silent_watcher() && all_->rank() == 1;
      if (says_it) return abort_flag_.Check();
      std::this_thread::sleep_for(kLastWords);  // the end of this rank would end the first one, too
      return Unexpected(kQuiet);
    }
    return Unexpected(kQuiet);
  }
  if (is_alone()) return status;
  if (watch_ && status.error().code == ErrorCode::kUnavailable) wait(3 * kOtherWords);
  if (abort_flag_.raised()) return abort_flag_.Check();
  abort_flag_.Raise(status.error());  // the other ranks must not wait for this rank
  return NameRank(status.error(), all_->rank());
}

void RankProcess::End() {
  if (is_alone() || abort_flag_.raised()) return;
  RankMessage end;
  end.Write(RankCall::kEnd);
  static_cast<void>(end.Broadcast(*all_));  // a rank that is gone need not receive it
}

// Called before the model computes: ranks with different settings would wait for each other, or
// give wrong answers.
Status RankProcess::CheckAgreement(const Checkpoint& checkpoint) {
  const Result<std::string> model = ComputeContentFingerprint(checkpoint);
  if (!model) return Unexpected(model.error());
  if (Status same = CheckSame(*all_, *model, "model"); !same) return same;
  const std::string options = fmt::format(
      "--tp {} --pp {} --ep {}{}{} --expert-exchange {} --redundant-experts {} "
      "--eplb-interval {}{}{}",
      options_.n_tensor, options_.n_stages, options_.n_expert,
      options_.dp_attention ? " --dp-attention" : "",
      options_.decode_context_parallel ? " --decode-context-parallel" : "",
      options_.expert_exchange.empty() ? "auto" : options_.expert_exchange,
      options_.n_redundant_experts, options_.eplb_interval,
      options_.expert_placement.empty() ? "" : " --expert-placement",
      options_.save_expert_placement.empty() ? "" : " --save-expert-placement");
  return CheckSame(*all_, options, "options");
}

Result<const ModelRanks*> RankProcess::Partition(const ModelConfig& config,
                                                 const Checkpoint& checkpoint) {
  if (options_.is_one()) {
    const Result<RankCounts> counts = CountRanks(options_, 1, config);
    const Status checked = counts ? CheckCounts(config, *counts, 1) : Unexpected(counts.error());
    if (!checked) return Unexpected(checked.error());
    return nullptr;
  }
  const Result<RankCounts> counts = CountRanks(options_, all_->size(), config);
  if (!counts) return Unexpected(counts.error());
  if (Status agreed = CheckAgreement(checkpoint); !agreed) return Unexpected(agreed.error());
  Result<std::unique_ptr<RankGroups>> groups =
      RankGroups::Join(*all_, config, WeighStages(checkpoint, config), *counts);
  if (!groups) return Unexpected(groups.error());
  groups_ = *std::move(groups);
  return &groups_->ranks();
}

}  // namespace fathom::runtime
