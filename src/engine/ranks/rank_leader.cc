#include "engine/ranks/rank_leader.h"

#include <functional>
#include <utility>

#include "engine/ranks/rank_disks.h"

namespace fathom::engine {

RankLeader::RankLeader(Model& model, Communicator& all, OnFailure on_failure,
                       AfterForward after_forward)
    : model_(model),
      all_(all),
      on_failure_(std::move(on_failure)),
      after_forward_(std::move(after_forward)),
      shadow_(model.cache()) {}

// Sends `call` to the other ranks with the arguments that fill(message) adds, and runs it here.
template <class Fill, class Run>
Status RankLeader::Call(RankCall call, const Fill& fill, const Run& run) {
  if (failure_) return Unexpected(*failure_);
  message_.Clear();
  message_.Write(call);
  fill(message_);
  const Status told = Checked(message_.Broadcast(all_));
  return told ? Checked(run()) : told;
}

Status RankLeader::Checked(Status ran) {
  if (ran || failure_) return ran;
  failure_ = Error{ErrorCode::kUnavailable,
                   fmt::format("the ranks have stopped: {}", ran.error().message)};
  if (on_failure_) {
    on_failure_(ran.error());
  }
  return Unexpected(*failure_);
}

template <class Run>
Status RankLeader::CallWithBatch(RankCall call, const Batch& batch, const Run& run) {
  if (failure_) return Unexpected(*failure_);
  if (Status prepared = model_.Prepare(batch); !prepared) return prepared;
  return Call(
      call,
      [&](RankMessage& message) {
        shadow_.WriteChanges(batch.View(), message);
        WriteBatch(batch.View(), message);
      },
      run);
}

Status RankLeader::Forward(const Batch& batch, std::vector<SequenceFailure>& failed) {
  failed.clear();
  return CallWithBatch(RankCall::kForward, batch, [&] {
    Status ran = model_.Forward(batch, failed);
    return ran ? EndForward(batch.n_tokens()) : ran;
  });
}

class RankLeader::LeaderPass final : public LayeredPass {
 public:
  LeaderPass(RankLeader& leader, std::unique_ptr<LayeredPass> local, std::int64_t n_tokens)
      : leader_(leader), local_(std::move(local)), n_tokens_(n_tokens) {}
  ~LeaderPass() override {
    if (has_ended_) return;
    static_cast<void>(leader_.Call(
        RankCall::kStopPass, [](RankMessage&) {}, [] { return Status(); }));
  }
  Result<PassProgress> Continue(std::vector<SequenceFailure>& failed) override {
    failed.clear();
    PassProgress progress;
    const Status ran = leader_.Call(
        RankCall::kContinuePass, [](RankMessage&) {},
        [&]() -> Status {
          const Result<PassProgress> layer = local_->Continue(failed);
          if (!layer) return Unexpected(layer.error());
          progress = *layer;
          return progress.HasEnded() ? leader_.EndForward(n_tokens_) : Status();
        });
    has_ended_ = !ran || progress.HasEnded();
    if (!ran) return Unexpected(ran.error());
    return progress;
  }

 private:
  RankLeader& leader_;
  const std::unique_ptr<LayeredPass> local_;
  const std::int64_t n_tokens_;
  bool has_ended_ = false;
};

Result<std::unique_ptr<LayeredPass>> RankLeader::BeginPass(const Batch& batch,
                                                           ShouldStop /*should_stop*/) {
  std::unique_ptr<LayeredPass> local;
  const Status begun = CallWithBatch(RankCall::kBeginPass, batch, [&]() -> Status {
    Result<std::unique_ptr<LayeredPass>> pass = model_.BeginPass(batch);
    if (!pass) return Unexpected(pass.error());
    local = *std::move(pass);
    return {};
  });
  if (!begun) return Unexpected(begun.error());
  return std::make_unique<LeaderPass>(*this, std::move(local), batch.n_tokens());
}

Status RankLeader::StartTokens(std::span<const std::int32_t> rows, DescribeRows describe,
                               int slot) {
  return Call(
      RankCall::kLogits, [&](RankMessage& message) { message.WriteList(rows); },
      [&] { return model_.StartTokens(rows, std::move(describe), slot); });
}

Result<ChosenTokens> RankLeader::FinishTokens(int slot) {
  if (failure_) return Unexpected(*failure_);
  Result<ChosenTokens> found = model_.FinishTokens(slot);
  if (!found) return Unexpected(Checked(Status(Unexpected(found.error()))).error());
  return found;
}

Status RankLeader::CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                                   StreamSource source) {
  if (failure_) return Unexpected(*failure_);
  if (Status prepared = model_.drafter()->Prepare(next, stream_rows, source); !prepared) {
    return prepared;
  }
  return Call(
      RankCall::kCommit,
      [&](RankMessage& message) {
        shadow_.WriteChanges(next.View(), message);
        WriteBatch(next.View(), message);
        message.WriteList(stream_rows);
        message.Write(source);
      },
      [&] { return model_.drafter()->Commit(next, stream_rows, source); });
}

Status RankLeader::ProposeDrafts(std::span<const DraftRequest> requests,
                                 const DescribeDrafts& describe, const ChooseDrafts& choose) {
  const auto choose_for_all = [&](const DraftLogits& found, std::span<Token> tokens) {
    const Status chosen = choose(found, tokens);
    if (!chosen || !found.every_rank_needs_tokens) return chosen;
    message_.Clear();
    message_.WriteList(tokens);
    return message_.Broadcast(all_);
  };
  return Call(
      RankCall::kPropose, [&](RankMessage& message) { WriteRequests(requests, message); },
      [&] { return model_.drafter()->Propose(requests, describe, std::cref(choose_for_all)); });
}

Result<std::unique_ptr<BlockStore>> RankLeader::OpenDisk(
    const DiskTierOptions& options, const BlockKey& root,
    std::function<void(const std::string&)> warn) {
  const auto tell = [this](const std::function<void(RankMessage&)>& add) {
    return Call(RankCall::kDisk, add, [] { return Status(); });
  };
  return LeaderDisks::Open(cache(), options, root, std::move(warn), all_, tell,
                           [this](const Error& error) { Checked(Status(Unexpected(error))); });
}

}  // namespace fathom::engine
