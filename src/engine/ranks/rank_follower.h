// A rank that is not the first: it computes its share of what the first one is asked for.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "comm/communicator.h"
#include "engine/ranks/rank_calls.h"
#include "model/model.h"

namespace fathom {

// Runs the calls that rank 0 of `all` tells (rank_leader.h) until that says kEnd. Error: a call
// that failed here, or the others are gone; the run is over then.
// warn: as of DiskTier::Open, if the first rank has all of them keep blocks on disk.
Status FollowCalls(Model& model, Communicator& all, const AfterForward& after_forward = {},
                   const std::function<void(const std::string&)>& warn = {});

}  // namespace fathom
