#include "engine/rank_leader.h"

#include <utility>

namespace fathom {

RankLeader::RankLeader(Model& model, Communicator& all, OnFailure on_failure,
                       AfterForward after_forward)
    : model_(model),
      local_(model),
      all_(all),
      on_failure_(std::move(on_failure)),
      after_forward_(std::move(after_forward)),
      shadow_(model.cache()) {}

RankMessage& RankLeader::Begin(RankCall call) {
  message_.Clear();
  message_.Add(static_cast<std::int64_t>(call));
  return message_;
}

Status RankLeader::Tell() { return Checked(message_.Broadcast(all_)); }

Status RankLeader::Checked(Status ran) {
  if (ran || failure_) {
    return ran;
  }
  failure_ = Error{ErrorCode::kUnavailable,
                   fmt::format("the ranks have stopped: {}", ran.error().message)};
  if (on_failure_) {
    on_failure_(ran.error());
  }
  return Unexpected(*failure_);
}

Result<Matrix<const float>> RankLeader::Checked(Result<Matrix<const float>> logits) {
  if (!logits) {
    return Unexpected(Checked(Status(Unexpected(logits.error()))).error());
  }
  return logits;
}

Status RankLeader::Forward(const Batch& batch) {
  if (failure_) {
    return Unexpected(*failure_);
  }
  if (Status prepared = model_.Prepare(batch); !prepared) {
    return prepared;
  }
  RankMessage& message = Begin(RankCall::kForward);
  shadow_.AddChanges(batch.View(), message);
  AddBatch(batch.View(), message);
  if (Status told = Tell(); !told) {
    return told;
  }
  Status ran = Checked(model_.Forward(batch));
  if (ran && after_forward_) {
    ran = Checked(after_forward_(batch.n_tokens()));
  }
  return ran;
}

Result<Matrix<const float>> RankLeader::Logits(std::span<const std::int32_t> rows) {
  if (failure_) {
    return Unexpected(*failure_);
  }
  AddRows(rows, Begin(RankCall::kLogits));
  if (Status told = Tell(); !told) {
    return Unexpected(told.error());
  }
  return Checked(model_.Logits(rows));
}

Status RankLeader::ForwardDraft(const Batch& next, std::span<const std::int32_t> stream_rows,
                                StreamSource source) {
  if (failure_) {
    return Unexpected(*failure_);
  }
  if (Status prepared = model_.PrepareMtp(next, stream_rows, source); !prepared) {
    return prepared;
  }
  RankMessage& message = Begin(RankCall::kForwardDraft);
  shadow_.AddChanges(next.View(), message);
  AddBatch(next.View(), message);
  AddRows(stream_rows, message);
  message.Add(static_cast<std::int64_t>(source));
  if (Status told = Tell(); !told) {
    return told;
  }
  return Checked(model_.ForwardMtp(next, stream_rows, source));
}

Result<Matrix<const float>> RankLeader::DraftLogits(std::span<const std::int32_t> rows) {
  if (failure_) {
    return Unexpected(*failure_);
  }
  AddRows(rows, Begin(RankCall::kDraftLogits));
  if (Status told = Tell(); !told) {
    return Unexpected(told.error());
  }
  return Checked(model_.MtpLogits(rows));
}

}  // namespace fathom
