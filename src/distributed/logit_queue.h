// LogitQueue: the logits of a model's steps, taken in the order of the steps, as late as they can
// be.
//
//   if (Status room = queue.MakeRoom(); !room) ...    // before each step
//   if (Status ran = model.Forward(batch); !ran) ...
//   if (Status started = queue.Start(rows); !started) ...
//   ...
//   Status finished = queue.FinishAll();
//
// The first stage of a pipeline computes the next steps while the others are busy with these; a
// model in one piece has its logits before the next step begins.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "model/model.h"

namespace fathom {

// Uses the model, which outlives it and has no other logits on their way. Of several ranks, all
// call the same functions in the same order. One thread at a time.
class LogitQueue {
 public:
  // Told the logits of every Start (Model::Logits); its error ends the call that took them.
  using Take = std::function<Status(Matrix<const float> logits)>;

  LogitQueue(Model& model, Take take);

  // Takes logits until a step may begin.
  Status MakeRoom();
  // Of rows of the last Forward; any number of times behind each.
  Status Start(std::span<const std::int32_t> rows);
  Status FinishAll();

 private:
  int PlaceOf(std::int64_t i) const;
  Status FinishUntil(std::int64_t n_left);

  Model& model_;
  Take take_;
  std::int64_t n_started_ = 0;
  std::int64_t n_finished_ = 0;
};

}  // namespace fathom
