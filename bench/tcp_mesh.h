// Ranks as processes on several hosts, joined two by two over TCP: what fathom launch does with
// sockets of one machine. For measurements in a network of one's own: whoever comes is believed.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "comm/socket_mesh.h"

namespace fathom::bench {

// addresses: of every rank, IPv4. All ranks call it within 10 s. Errors: kIo, kInvalidArgument.
Result<MeshEnds> JoinTcpMesh(int rank, std::span<const std::string> addresses, int port);

}  // namespace fathom::bench
