#include "engine/ranks/rank_follower.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "comm/rank_message.h"
#include "engine/ranks/rank_calls.h"
#include "engine/ranks/rank_disks.h"

namespace fathom::engine {
namespace {

class Follower {
 public:
  Follower(Model& model, Communicator& all, const AfterForward& after_forward,
           const std::function<void(const std::string&)>& warn)
      : model_(model),
        all_(all),
        after_forward_(after_forward),
        disk_(
            model.cache(), all, warn ? warn : [](const std::string&) {}) {
    batch_.Reserve(model.options().max_batch_tokens, model.options().max_sequences);
  }

  // Runs the call with the arguments in the message.
  Status Run(RankCall call, RankMessage& message) {
    switch (call) {
      case RankCall::kForward:
        ReadChanges(message, model_.cache());
        ReadBatch(message, batch_);
        return IfRead(message, [&] { return Forward(); });
      case RankCall::kBeginPass:
      case RankCall::kContinuePass:
      case RankCall::kStopPass:
        return RunPass(call, message);
      case RankCall::kLogits:
        message.ReadList(rows_);
        return IfRead(message, [&] { return WithoutValue(model_.Logits(rows_)); });
      case RankCall::kCommit:
      case RankCall::kPropose:
        if (model_.drafter() == nullptr) {
          return MakeError(ErrorCode::kInvalidData,
                           "message of rank 0: expected no call of a drafter, since this rank has "
                           "loaded none, found call {}",
                           static_cast<std::int64_t>(call));
        }
        return Draft(call, *model_.drafter(), message);
      case RankCall::kDisk: {
        const Status ran = disk_.Run(message);
        return ran ? IfRead(message, [] { return Status(); }) : ran;
      }
      case RankCall::kEnd:
      case RankCall::kLoad:
        break;
    }
    return MakeError(ErrorCode::kInvalidData,
                     "message of rank 0: expected a call of the model or the disk, found call {}",
                     static_cast<std::int64_t>(call));
  }

 private:
  Status Draft(RankCall call, Drafter& drafter, RankMessage& message) {
    if (call == RankCall::kCommit) {
      ReadChanges(message, model_.cache());
      ReadBatch(message, batch_);
      message.ReadList(rows_);
      const auto source = static_cast<StreamSource>(message.Read());
      return IfRead(message, [&] { return drafter.Commit(batch_, rows_, source); });
    }
    ReadRequests(message, requests_);
    return IfRead(message, [&] {
      const auto receive = [this](const DraftLogits& found, std::span<Token> tokens) {
        return found.every_rank_needs_tokens ? ReceiveTokens(tokens) : Status();
      };
      return drafter.Propose(requests_, {}, receive);
    });
  }
  // Receives the tokens that rank 0 has chosen.
  Status ReceiveTokens(std::span<Token> tokens) {
    if (Status told = tokens_message_.Broadcast(all_); !told) return told;
    tokens_message_.ReadList(rows_);
    if (std::ssize(rows_) != std::ssize(tokens)) {
      return MakeError(ErrorCode::kInvalidData,
                       "message of rank 0: expected {} drafted tokens, found {}", tokens.size(),
                       rows_.size());
    }
    std::ranges::copy(rows_, tokens.begin());
    return IfRead(tokens_message_, [] { return Status(); });
  }
  Status Forward() {
    Status ran = model_.Forward(batch_, failed_);  // the first rank has the same list
    if (ran && after_forward_) {
      ran = after_forward_(batch_.n_tokens());
    }
    return ran;
  }
  // Runs a call of a pass in pieces.
  Status RunPass(RankCall call, RankMessage& message) {
    const bool begins = call == RankCall::kBeginPass;
    const bool is_in_pass = pass_ != nullptr;
    if (begins ? is_in_pass || model_.options().pause_tokens == 0 : !is_in_pass) {
      return MakeError(ErrorCode::kInvalidData,
                       "message of rank 0: expected no call {} of a pass in pieces, since {}",
                       static_cast<std::int64_t>(call),
                       is_in_pass ? "one is under way"
                       : begins   ? "this rank does not pause"
                                  : "none is under way");
    }
    if (begins) {
      ReadChanges(message, model_.cache());
      ReadBatch(message, pass_batch_);
    }
    return IfRead(message, [&] { return begins ? BeginPass() : GoOnWithPass(call); });
  }
  Status BeginPass() {
    Result<std::unique_ptr<LayeredPass>> begun = model_.BeginPass(pass_batch_);
    if (!begun) return Unexpected(begun.error());
    pass_ = *std::move(begun);
    return {};
  }
  Status GoOnWithPass(RankCall call) {
    if (call == RankCall::kStopPass) {
      pass_.reset();
      return {};
    }
    const Result<PassProgress> progress = pass_->Continue(failed_);
    if (progress && !progress->HasEnded()) return {};
    pass_.reset();
    if (!progress) return Unexpected(progress.error());
    return after_forward_ ? after_forward_(pass_batch_.n_tokens()) : Status();
  }
  template <class Call>
  static Status IfRead(const RankMessage& message, const Call& call) {
    if (!message.IsRead()) {
      return MakeError(
          ErrorCode::kInvalidData,
          "message of rank 0: expected the arguments of the call, found fewer or more");
    }
    return call();
  }
  static Status WithoutValue(const Result<Matrix<const float>>& logits) {
    return logits ? Status() : Unexpected(logits.error());
  }

  Model& model_;
  Communicator& all_;
  const AfterForward& after_forward_;
  FollowerDisk disk_;
  Batch batch_;
  Batch pass_batch_;                   // batch of a pass in pieces, until the pass ends
  std::unique_ptr<LayeredPass> pass_;  // null: none is under way
  std::vector<std::int32_t> rows_;
  std::vector<DraftRequest> requests_;
  std::vector<SequenceFailure> failed_;
  RankMessage tokens_message_;
};

}  // namespace

Status FollowCalls(Model& model, Communicator& all, const AfterForward& after_forward,
                   const std::function<void(const std::string&)>& warn) {
  Follower follower(model, all, after_forward, warn);
  RankMessage message;
  for (;;) {
    if (Status told = message.Broadcast(all); !told) return told;
    const auto call = static_cast<RankCall>(message.Read());
    if (call == RankCall::kEnd) return {};
    if (Status ran = follower.Run(call, message); !ran) return ran;
  }
}

}  // namespace fathom::engine
