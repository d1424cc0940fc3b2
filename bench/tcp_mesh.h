// Ranks as processes on several hosts, joined pairwise over TCP, as fathom launch joins ranks with
// the sockets of one machine. For measurements in a private network: connections are not
// authenticated.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "comm/socket_mesh.h"

namespace fathom::benchmarks {

// addresses: IPv4, of every rank. All ranks call it within 10 s. Errors: kIo, kInvalidArgument.
Result<MeshEnds> JoinTcpMesh(int rank, std::span<const std::string> addresses, int port);

}  // namespace fathom::benchmarks
