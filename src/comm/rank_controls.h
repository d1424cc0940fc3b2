// Control sockets (rank_link.h) between the first rank and the others where no launcher has made
// any: over TCP, with the addresses told over the transport that there is.
#pragma once

#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "comm/communicator.h"

namespace fathom {

// Called by all ranks. On rank 0: one to each of ranks 1, 2, ...; on the others: one to rank 0.
// Error, on all ranks alike: not all can reach rank 0 within 10 s.
Result<std::vector<Descriptor>> ConnectControls(Communicator& all);

}  // namespace fathom
