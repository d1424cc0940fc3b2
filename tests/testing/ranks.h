// RunRanks: several ranks in one process, a thread each, joined as processes would be.
#pragma once

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/abort_flag.h"
#include "comm/communicator.h"
#include "comm/socket_mesh.h"

namespace fathom::testing {

// Returns when all have returned; the connections of a rank are closed when its function returns.
inline void RunRanks(int n_ranks, const std::function<void(Communicator&)>& run,
                     const AbortFlag& abort_flag = {}) {
  Result<std::vector<MeshEnds>> mesh = MakeSocketMesh(n_ranks);
  Check(mesh.has_value(), "sockets for all ranks");
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < n_ranks; ++rank) {
    threads.emplace_back([&abort_flag, &run, rank,
                          ends = std::move((*mesh)[static_cast<std::size_t>(rank)])]() mutable {
      const std::unique_ptr<Communicator> ranks =
          MakeSocketCommunicator(rank, std::move(ends), abort_flag);
      run(*ranks);
    });
  }
}

}  // namespace fathom::testing
