// A mesh of sockets: ranks that are connected two by two by stream sockets, as processes of one
// machine that a parent started, or as threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "comm/abort_flag.h"
#include "comm/communicator.h"

namespace fathom::comm {

// The sockets of one rank: [i] leads to rank i; the rank's own element is empty.
using MeshEnds = std::vector<Descriptor>;

// Makes socket pairs between n_ranks: element r is for rank r. Error: the system has no more
// descriptors.
Result<std::vector<MeshEnds>> MakeSocketMesh(int n_ranks);

// Owns the sockets of `rank`. Waits check `abort_flag`, which must outlive the communicator and all
// communicators split from it, and return the flag's error once it is raised. A peer that closes
// its end while a message is expected from it is an error that names the peer.
std::unique_ptr<Communicator> MakeSocketCommunicator(int rank, MeshEnds ends,
                                                     const AbortFlag& abort_flag);

}  // namespace fathom::comm
