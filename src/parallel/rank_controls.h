// Control sockets (rank_link.h) between the first rank and the others where no launcher has made
// any: over TCP, with the addresses told over the transport that there is.
#ifndef FATHOM_PARALLEL_RANK_CONTROLS_H_
#define FATHOM_PARALLEL_RANK_CONTROLS_H_

#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "parallel/communicator.h"

namespace fathom {

// Called by all ranks. On rank 0: one to each of ranks 1, 2, ...; on the others: one to rank 0.
// Error, on all ranks alike: not all can reach rank 0 within 10 s.
Result<std::vector<Descriptor>> ConnectControls(Communicator& all);

}  // namespace fathom

#endif  // FATHOM_PARALLEL_RANK_CONTROLS_H_
