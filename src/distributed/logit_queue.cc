#include "distributed/logit_queue.h"

#include <utility>

namespace fathom::distributed {

LogitQueue::LogitQueue(Model& model, Receive receive)
    : model_(model), receive_(std::move(receive)) {}

Status LogitQueue::MakeRoom() { return FinishUntil(model_.most_in_flight() - 1); }

Status LogitQueue::Start(std::span<const std::int32_t> rows) {
  if (Status room = MakeRoom(); !room) return room;
  return model_.StartTokens(rows, {}, LogitSlot(n_started_++));
}

Status LogitQueue::FinishAll() { return FinishUntil(0); }

int LogitQueue::LogitSlot(std::int64_t i) const {
  return static_cast<int>(i % model_.most_in_flight());
}

Status LogitQueue::FinishUntil(std::int64_t n_left) {
  while (n_started_ - n_finished_ > n_left) {
    const Result<ChosenTokens> found = model_.FinishTokens(LogitSlot(n_finished_++));
    if (!found) return Unexpected(found.error());
    if (Status received = receive_(found->logits); !received) return received;
  }
  return {};
}

}  // namespace fathom::distributed
