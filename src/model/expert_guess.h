// Guesses the experts that the next block will choose (docs/spec/streaming.md 2.4): its router,
// applied to the streams before the experts of this block are added to them.
#pragma once

#include "base/tensor.h"
#include "model/block.h"
#include "model/weights.h"

namespace fathom::model {

// Passes guesses for `next` to step.store, if it accepts them. streams [t, 4 d]: the streams that
// the experts of the running block read. Writes only buffers of the store, so that no result of the
// step changes.
void GuessExperts(const Step& step, const BlockWeights& next, Matrix<const Bf16> streams);

}  // namespace fathom::model
