// The positions that a drafter is told of must be those of known streams.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "model/draft/drafter.h"
#include "model/model_state.h"

namespace fathom {

// Checks that every row of `next` stands at the position of its streams (Drafter::Commit). Error
// (kInvalidArgument): it stands elsewhere.
Status CheckStreams(const ModelState& model, const BatchView& next,
                    std::span<const std::int32_t> stream_rows, StreamSource source);

}  // namespace fathom
