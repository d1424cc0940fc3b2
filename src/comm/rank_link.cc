#include "comm/rank_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/parse_text.h"
#include "base/signal_mask.h"

namespace fathom::comm {
namespace {

constexpr std::string_view kFailure = "failed ";

void SendLine(int control, std::string line) {
  line += '\n';
  static_cast<void>(::send(control, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// Removes a number and the separator after it from the front of the text; the last number has no
// separator.
bool TakeNumberAnd(std::string_view& text, char separator, int& number) {
  const std::optional<int> taken = TakeNumber<int>(text);
  if (!taken) return false;
  number = *taken;
  if (!text.empty() && text.front() != separator) return false;
  text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  return true;
}

}  // namespace

std::string ToText(const RankLink& link) {
  return fmt::format("{}:{}:{}", link.rank, link.control, fmt::join(link.ends, ","));
}

Result<RankLink> ParseRankLink(std::string_view text) {
  const std::string_view whole = text;
  RankLink link;
  bool is_right = TakeNumberAnd(text, ':', link.rank) && TakeNumberAnd(text, ':', link.control);
  while (is_right && !text.empty()) {
    link.ends.push_back(-1);
    is_right = TakeNumberAnd(text, ',', link.ends.back());
  }
  if (!is_right || link.rank < 0 || link.rank >= link.n_ranks()) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "{}: expected RANK:CONTROL:END,END,..., found \"{}\" (fathom launch sets it for "
        "the ranks it starts)",
        kRankLinkVariable, whole);
  }
  return link;
}

std::string FailureLine(const Error& error) {
  std::string message = error.message;
  std::replace(message.begin(), message.end(), '\n', ' ');
  return fmt::format("{}{} {}", kFailure, static_cast<int>(error.code), message);
}

Error ParseFailureLine(std::string_view line) {
  int code = 0;
  std::string_view rest = line.substr(std::min(line.size(), kFailure.size()));
  if (!line.starts_with(kFailure) || !TakeNumberAnd(rest, ' ', code) || code < 0 ||
      code > static_cast<int>(ErrorCode::kIo)) {
    return {ErrorCode::kIo, fmt::format("said \"{}\"", line)};
  }
  return {static_cast<ErrorCode>(code), std::string(rest)};
}

Heartbeat::Heartbeat(int control, Watcher watcher, AbortFlag& abort_flag, OnOverdue on_overdue)
    : control_(control), on_overdue_(std::move(on_overdue)) {
  const SignalsBlocked blocked;
  thread_ = std::jthread([this, watcher, &abort_flag](const std::stop_token& stop) {
    Beat(stop, watcher, abort_flag);
  });
}

Heartbeat::~Heartbeat() {
  thread_.request_stop();
  thread_.join();
  SendEnd(control_);
}

void Heartbeat::Beat(const std::stop_token& stop, Watcher watcher, AbortFlag& abort_flag) {
  constexpr int kTurnMs = 50;  // the longest time until the thread notices a stop
  WatchedRank other{Descriptor(::dup(control_))};
  auto last_turn = WatchedRank::Clock::now();
  // A failure of this connection is a consequence of a failure elsewhere.
  const auto raise = [&abort_flag](std::string message) {
    abort_flag.Raise({ErrorCode::kUnavailable, std::move(message)});
  };
  for (std::int64_t turn = 0; !stop.stop_requested() && !abort_flag.raised(); ++turn) {
    if (turn % (kAlivePeriod.count() / kTurnMs) == 0) {
      SendHeartbeat(control_);
    }
    pollfd waits = {.fd = other.has_ended() ? -1 : control_, .events = POLLIN, .revents = 0};
    if (::poll(&waits, 1, kTurnMs) > 0 && !other.ReadMessages() && !other.has_ended()) {
      ::_exit(EXIT_FAILURE);
    }
    if (other.failure()) {
      raise(other.failure()->message);
    } else if (watcher == Watcher::kFirstRank) {
      FindSilences(std::span(&other, 1), last_turn);
      if (other.failure()) {
        has_silent_watcher_ = true;
        raise("rank 0: " + other.failure()->message);
      }
    }
  }
  if (abort_flag.raised() && on_overdue_) {
    WaitForEnd(stop, abort_flag, on_overdue_);
  }
}

void SendHeartbeat(int control) { SendLine(control, std::string(kAliveLine)); }
void SendEnd(int control) { SendLine(control, std::string(kEndLine)); }

void SendFailure(int control, const Error& error) { SendLine(control, FailureLine(error)); }

}  // namespace fathom::comm
