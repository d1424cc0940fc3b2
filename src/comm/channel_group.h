// ChannelGroup: which ranks of a transport are a communicator, and the number that keeps their
// messages apart from those of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "comm/communicator.h"

namespace fathom {

struct ChannelGroup {
  std::vector<int> members;  // ranks of the transport, in the order of those of the group
  int rank = 0;              // of this process in the group
  std::int64_t channel = 0;

  int size() const { return static_cast<int>(members.size()); }
  // The rank of the transport that another rank of the group is.
  int MemberOf(int other) const {
    Check(other >= 0 && other < size() && other != rank, "another rank of the communicator");
    return members[static_cast<std::size_t>(other)];
  }
};

// All ranks of the transport, in channel 0.
ChannelGroup WholeGroup(int rank, int n_ranks);

// Communicator::Split of `whole`, whose group this is. next_channel: of this process, the first
// that it has not seen; the new channel has the same number on all ranks of the new group.
Result<ChannelGroup> SplitGroup(Communicator& whole, const ChannelGroup& group, int color, int key,
                                std::int64_t& next_channel);

}  // namespace fathom
