// Guesses of the experts that the next block will choose (docs/spec/streaming.md 2.4): its router,
// applied to the streams before the experts of this block are added to them.
#pragma once

#include "base/tensor.h"
#include "model/block.h"
#include "model/weights.h"

namespace fathom {

// Hands guesses for `next` to step.store, if it wants any. streams [t, 4 d] are those that the
// experts of the running block read. Writes buffers of the store alone, so that no result of the
// step changes.
void GuessExperts(const Step& step, const BlockWeights& next, Matrix<const Bf16> streams);

}  // namespace fathom
