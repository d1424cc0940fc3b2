// RankLink: what ties a rank to the launcher that started it: sockets to the other ranks, and one
// over which it says that it lives, and why it ends.
#ifndef FATHOM_PARALLEL_RANK_LINK_H_
#define FATHOM_PARALLEL_RANK_LINK_H_

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "parallel/alarm.h"

namespace fathom {

// Descriptors, open in this process.
struct RankLink {
  int rank = 0;
  int control = -1;       // to the launcher
  std::vector<int> ends;  // [i] to rank i; its own is -1

  int n_ranks() const { return static_cast<int>(ends.size()); }
};

// The variable of the environment in which a rank finds its link.
inline constexpr const char* kRankLinkVariable = "FATHOM_RANK_LINK";

// "RANK:CONTROL:END,END,..." and back.
std::string ToText(const RankLink& link);
Result<RankLink> ParseRankLink(std::string_view text);

// A line of the control socket, without its end; failures go both ways.
inline constexpr std::string_view kAliveLine = "alive";
inline constexpr std::chrono::milliseconds kAlivePeriod{500};
std::string FailureLine(const Error& error);
// The error of such a line; kIo if it is not one.
Error ParseFailureLine(std::string_view line);

// Says that this process lives, from a thread of its own, until it is destroyed. When the launcher
// says that another rank has failed, raises the alarm. If the launcher is gone, ends the process:
// nobody would read its result.
class Heartbeat {
 public:
  // The alarm outlives it.
  Heartbeat(int control, Alarm& alarm);

 private:
  std::jthread thread_;
};

// Tells the other end why this rank ends, or has to. Does not wait.
void TellFailure(int control, const Error& error);

}  // namespace fathom

#endif  // FATHOM_PARALLEL_RANK_LINK_H_
