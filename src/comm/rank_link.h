// RankLink: what ties a rank to the launcher that started it: sockets to the other ranks, and a
// control socket, over which it says that it lives, and why it ends. Where MPI has started the
// ranks, the first is in the launcher's place (rank_controls.h).
#pragma once

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "comm/abort_flag.h"
#include "comm/failure_detector.h"

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
inline constexpr std::string_view kEndLine = "end";  // from now on it is silent
inline constexpr std::chrono::milliseconds kAlivePeriod{500};
std::string FailureLine(const Error& error);
// The error of such a line; kIo if it is not one.
Error ParseFailureLine(std::string_view line);

// Who is at the other end of a control socket.
enum class Watcher {
  kLauncher,   // a process with no other purpose
  kFirstRank,  // which says too that it lives, and must
};

// Says that this process lives, from a thread of its own, until it is destroyed. When the watcher
// says that another rank has failed, or says nothing for kRankSilence though it should, raises the
// alarm; it ends then. If the watcher is gone, ends the process: nobody would read its result.
class Heartbeat {
 public:
  // The alarm outlives it, and the descriptor stays open.
  Heartbeat(int control, Watcher watcher, AbortFlag& alarm, OnOverdue on_overdue = {});
  ~Heartbeat();

  // It was the watcher that said nothing. Any thread.
  bool has_silent_watcher() const { return has_silent_watcher_; }

 private:
  void Beat(const std::stop_token& stop, Watcher watcher, AbortFlag& alarm);

  const int control_;
  const OnOverdue on_overdue_;
  std::atomic<bool> has_silent_watcher_ = false;
  std::jthread thread_;
};

// Tell the other end that this one lives; that it will be silent; why it ends, or has to. Do not
// wait.
void TellAlive(int control);
void TellEnd(int control);
void TellFailure(int control, const Error& error);

}  // namespace fathom
