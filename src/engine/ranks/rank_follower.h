// Runs a rank other than the first: computes its part of each call of the first rank.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "comm/communicator.h"
#include "engine/ranks/rank_calls.h"
#include "model/model.h"

namespace fathom::engine {

// Runs the calls that rank 0 of `all` sends (rank_leader.h) until kEnd. An error ends the ranks'
// work: a call failed here, or the other ranks are gone. warn: as in DiskTier::Open, if the first
// rank stores blocks on disk.
Status FollowCalls(Model& model, Communicator& all, const AfterForward& after_forward = {},
                   const std::function<void(const std::string&)>& warn = {});

}  // namespace fathom::engine
