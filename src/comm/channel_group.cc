#include "comm/channel_group.h"

#include <algorithm>
#include <numeric>

namespace fathom::comm {

ChannelGroup WholeGroup(int rank, int n_ranks) {
  ChannelGroup group = {.members = std::vector<int>(static_cast<std::size_t>(n_ranks)),
                        .rank = rank};
  std::iota(group.members.begin(), group.members.end(), 0);
  return group;
}

// All ranks of a communicator split it together; each new group gets a channel that is new to all
// ranks.
Result<ChannelGroup> SplitGroup(Communicator& whole, const ChannelGroup& group, int color, int key,
                                std::int64_t& next_channel) {
  struct Choice {
    std::int32_t color = 0;
    std::int32_t key = 0;
    std::int64_t next_channel = 0;
  };
  const Choice mine = {color, key, next_channel};
  const Result<std::vector<Choice>> gathered = whole.GatherEach(mine);
  if (!gathered) return Unexpected(gathered.error());
  const std::vector<Choice>& all = *gathered;
  ChannelGroup part;
  for (std::size_t i = 0; i < all.size(); ++i) {
    part.channel = std::max(part.channel, all[i].next_channel);
    if (all[i].color == color) {
      part.members.push_back(static_cast<int>(i));
    }
  }
  next_channel = part.channel + 1;
  std::stable_sort(part.members.begin(), part.members.end(), [&](int a, int b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });
  const auto here = std::find(part.members.begin(), part.members.end(), group.rank);
  part.rank = static_cast<int>(here - part.members.begin());
  for (int& member : part.members) {
    member = group.members[static_cast<std::size_t>(member)];
  }
  return part;
}

}  // namespace fathom::comm
