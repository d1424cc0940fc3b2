// SocketMesh: ranks that are joined two by two by stream sockets: processes of one machine that a
// parent started, or threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "comm/abort_flag.h"
#include "comm/communicator.h"

namespace fathom {

// The ends of one rank: [i] leads to rank i; its own is empty.
using MeshEnds = std::vector<Descriptor>;

// Socket pairs between n_ranks: element r is for rank r. Error: the system has no more.
Result<std::vector<MeshEnds>> MakeSocketMesh(int n_ranks);

// Takes the ends of `rank`. Waits look at `alarm`, which must outlive all that is split from it,
// and return its error once it is raised. A peer that closes its end while something is expected
// of it is an error that names it.
std::unique_ptr<Communicator> MakeSocketCommunicator(int rank, MeshEnds ends,
                                                     const AbortFlag& alarm);

}  // namespace fathom
