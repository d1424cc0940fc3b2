// ShareStatus: what has failed on one rank, known to all.
#pragma once

#include "base/result.h"
#include "comm/communicator.h"

namespace fathom {

// Called by all ranks. Returns `mine`, or where that is no error, that of the first rank that has
// one: kUnavailable, "rank 1: ...", as every error that another rank has caused.
Status ShareStatus(Communicator& ranks, const Status& mine);

}  // namespace fathom
