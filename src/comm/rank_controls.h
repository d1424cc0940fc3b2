// Control sockets (rank_link.h) between the first rank and the other ranks where no launcher has
// made them: over TCP, with the addresses sent over the transport.
#pragma once

#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "comm/communicator.h"

namespace fathom::comm {

// Called by all ranks. Returns on rank 0 one socket to each of ranks 1, 2, ...; on the other ranks
// one to rank 0. Other processes that connect to rank 0 meanwhile neither take part nor delay the
// ranks. If all ranks run on one machine, no other machine can connect. Error, on all ranks alike:
// a rank cannot reach rank 0 within 10 s.
Result<std::vector<Descriptor>> ConnectControls(Communicator& all);

}  // namespace fathom::comm
