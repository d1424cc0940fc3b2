// A rank that is not the first: it computes its share of what the first one is asked for.
#ifndef FATHOM_ENGINE_RANK_FOLLOWER_H_
#define FATHOM_ENGINE_RANK_FOLLOWER_H_

#include "base/result.h"
#include "engine/rank_calls.h"
#include "model/model.h"
#include "parallel/communicator.h"

namespace fathom {

// Runs the calls that rank 0 of `all` tells (rank_leader.h) until that says kEnd. Error: a call
// that failed here, or the others are gone; the run is over then.
Status FollowCalls(Model& model, Communicator& all, const AfterForward& after_forward = {});

}  // namespace fathom

#endif  // FATHOM_ENGINE_RANK_FOLLOWER_H_
