// ShareStatus: tells all ranks about an error of any rank.
#pragma once

#include "base/result.h"
#include "comm/communicator.h"

namespace fathom::comm {

// Called by all ranks. Returns `mine` if it is an error; else the error of the first rank that has
// one, as kUnavailable, "rank 1: ...", like every error that another rank has caused.
Status ShareStatus(Communicator& ranks, const Status& mine);

}  // namespace fathom::comm
