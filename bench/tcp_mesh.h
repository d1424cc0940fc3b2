// Ranks as processes on several hosts, joined two by two over TCP: what fathom launch does with
// sockets of one machine. For measurements in a network of one's own: whoever comes is believed.
#ifndef FATHOM_BENCH_TCP_MESH_H_
#define FATHOM_BENCH_TCP_MESH_H_

#include <span>
#include <string>

#include "base/result.h"
#include "parallel/socket_mesh.h"

namespace fathom::bench {

// addresses: of every rank, IPv4. All ranks call it within 10 s. Errors: kIo, kInvalidArgument.
Result<MeshEnds> JoinTcpMesh(int rank, std::span<const std::string> addresses, int port);

}  // namespace fathom::bench

#endif  // FATHOM_BENCH_TCP_MESH_H_
