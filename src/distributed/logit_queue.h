// LogitQueue: hands out the logits of a model's steps in the order of the steps, as late as
// possible.
//
//   if (Status room = queue.MakeRoom(); !room) ...    // before each step
//   if (Status ran = model.Forward(batch); !ran) ...
//   if (Status started = queue.Start(rows); !started) ...
//   ...
//   Status finished = queue.FinishAll();
//
// The first stage of a pipeline computes the next steps while the other stages compute these; a
// model without stages has its logits before the next step begins.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "model/model.h"

namespace fathom::distributed {

// The model must outlive this object and have no other logits in flight. With several ranks, all
// call the same functions in the same order. One thread at a time.
class LogitQueue {
 public:
  // Receives the logits of every Start (Model::Logits); an error ends the call that received them.
  using Receive = std::function<Status(Matrix<const float> logits)>;

  LogitQueue(Model& model, Receive receive);

  // Hands out logits until the next step may begin.
  Status MakeRoom();
  // Starts the logits of some rows of the last Forward; any number of calls may follow each
  // Forward.
  Status Start(std::span<const std::int32_t> rows);
  Status FinishAll();

 private:
  int LogitSlot(std::int64_t i) const;
  Status FinishUntil(std::int64_t n_left);

  Model& model_;
  Receive receive_;
  std::int64_t n_started_ = 0;
  std::int64_t n_finished_ = 0;
};

}  // namespace fathom::distributed
