// Checks that the positions passed to a drafter are positions of known streams.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "model/draft/drafter.h"
#include "model/model_state.h"

namespace fathom::model {

// Checks that every row of `next` is at the position of its streams (Drafter::Commit). Error
// (kInvalidArgument): a row at another position.
Status CheckStreams(const ModelState& model, const BatchView& next,
                    std::span<const std::int32_t> stream_rows, StreamSource source);

}  // namespace fathom::model
