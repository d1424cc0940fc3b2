// ChannelGroup: the ranks of a transport that form a communicator, and the number that separates
// their messages from other groups' messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "comm/communicator.h"

namespace fathom::comm {

struct ChannelGroup {
  std::vector<int> members;  // rank of the transport for each rank of the group
  int rank = 0;              // rank of this process in the group
  std::int64_t channel = 0;

  int size() const { return static_cast<int>(members.size()); }
  // Returns the transport's rank of another rank of the group.
  int TransportRank(int other) const {
    Check(other >= 0 && other < size() && other != rank, "another rank of the communicator");
    return members[static_cast<std::size_t>(other)];
  }
};

// Returns all ranks of the transport, in channel 0.
ChannelGroup WholeGroup(int rank, int n_ranks);

// Implements Communicator::Split for `whole`, the communicator of this group. next_channel: the
// first channel that this process has not seen; the new channel has the same number on all ranks of
// the new group.
Result<ChannelGroup> SplitGroup(Communicator& whole, const ChannelGroup& group, int color, int key,
                                std::int64_t& next_channel);

}  // namespace fathom::comm
