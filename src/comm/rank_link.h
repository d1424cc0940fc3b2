// RankLink: connects a rank with the launcher that started it: sockets to the other ranks, and a
// control socket over which the rank reports that it is alive and why it ends. If MPI has started
// the ranks, the first rank takes the launcher's role (rank_controls.h).
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

namespace fathom::comm {

// File descriptors, open in this process.
struct RankLink {
  int rank = 0;
  int control = -1;       // to the launcher
  std::vector<int> ends;  // [i] to rank i; the rank's own is -1

  int n_ranks() const { return static_cast<int>(ends.size()); }
};

// The environment variable in which a rank finds its link.
inline constexpr const char* kRankLinkVariable = "FATHOM_RANK_LINK";

// Converts to and from "RANK:CONTROL:END,END,...".
std::string ToText(const RankLink& link);
Result<RankLink> ParseRankLink(std::string_view text);

// Lines of the control socket, without line feed; failures travel in both directions.
inline constexpr std::string_view kAliveLine = "alive";
inline constexpr std::string_view kEndLine = "end";  // the sender will be silent
inline constexpr std::chrono::milliseconds kAlivePeriod{500};
std::string FailureLine(const Error& error);
// Reads the error of a failure line; kIo for any other line.
Error ParseFailureLine(std::string_view line);

// The process at the other end of a control socket.
enum class Watcher {
  kLauncher,   // a process with no other purpose
  kFirstRank,  // must report, too, that it is alive
};

// Reports from its own thread that this process is alive, until it is destroyed. Raises the abort
// flag and ends when the watcher reports that another rank has failed, or is silent for
// kRankSilence although it must report. If the watcher is gone, ends the process: nobody would read
// its result.
class Heartbeat {
 public:
  // The abort flag must outlive the heartbeat, and the descriptor must stay open.
  Heartbeat(int control, Watcher watcher, AbortFlag& abort_flag, OnOverdue on_overdue = {});
  ~Heartbeat();

  // Returns true if the watcher was silent for too long. Any thread.
  bool has_silent_watcher() const { return has_silent_watcher_; }

 private:
  void Beat(const std::stop_token& stop, Watcher watcher, AbortFlag& abort_flag);

  const int control_;
  const OnOverdue on_overdue_;
  std::atomic<bool> has_silent_watcher_ = false;
  std::jthread thread_;
};

// Report to the other end that this process is alive; that it will be silent; why it ends or has to
// end. Do not wait.
void SendHeartbeat(int control);
void SendEnd(int control);
void SendFailure(int control, const Error& error);

}  // namespace fathom::comm
