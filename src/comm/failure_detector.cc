#include "comm/failure_detector.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/signal_mask.h"
#include "comm/rank_link.h"

namespace fathom::comm {
namespace {

constexpr std::chrono::milliseconds kTurn{50};
constexpr std::chrono::seconds kOwnPause{1};

}  // namespace

bool WatchedRank::ReadMessages() {
  char buffer[4096];
  const ssize_t n_read = ::recv(control_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (n_read == 0) return false;
  if (n_read < 0) return errno == EAGAIN || errno == EINTR;
  last_sign_ = Clock::now();
  text_.append(buffer, static_cast<std::size_t>(n_read));
  for (std::size_t end; (end = text_.find('\n')) != std::string::npos;) {
    const std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    if (line == kEndLine) {
      has_ended_ = true;
    } else if (line != kAliveLine) {
      Fail(ParseFailureLine(line));
    }
  }
  return true;
}

void WatchedRank::FindSilence(Clock::time_point now) {
  if (!has_ended_ && now - last_sign_ > kRankSilence) {
    Fail({ErrorCode::kIo, fmt::format("has said nothing for {} s: it is stopped, or it hangs",
                                      kRankSilence.count())});
  }
}

void WatchedRank::Fail(Error error) {
  if (!failure_) {
    failure_ = std::move(error);
  }
}

void FindSilences(std::span<WatchedRank> ranks, WatchedRank::Clock::time_point& last_turn) {
  const auto now = WatchedRank::Clock::now();
  const bool has_paused = now - std::exchange(last_turn, now) > kOwnPause;
  for (WatchedRank& rank : ranks) {
    if (has_paused) {
      rank.Excuse(now);
    }
    rank.FindSilence(now);
  }
}

std::optional<Error> FindCause(std::span<const WatchedRank> ranks, int first) {
  const WatchedRank* cause = nullptr;
  for (const WatchedRank& rank : ranks) {
    if (!rank.failure()) continue;
    const bool knows = rank.failure()->code != ErrorCode::kUnavailable;
    if (cause == nullptr || (knows && cause->failure()->code == ErrorCode::kUnavailable)) {
      cause = &rank;
    }
  }
  if (cause == nullptr) return std::nullopt;
  Error error = *cause->failure();
  error.message = fmt::format("rank {}: {}", first + (cause - ranks.data()), error.message);
  return error;
}

void WaitForEnd(const std::stop_token& stop, const AbortFlag& abort_flag,
                const OnOverdue& on_overdue) {
  const auto deadline = WatchedRank::Clock::now() + kOverdue;
  while (!stop.stop_requested() && WatchedRank::Clock::now() < deadline) {
    std::this_thread::sleep_for(kTurn);
  }
  if (!stop.stop_requested() && on_overdue) {
    on_overdue(abort_flag.Check().error());
  }
}

FailureDetector::FailureDetector(std::vector<Descriptor> controls, AbortFlag& abort_flag,
                                 OnOverdue on_overdue)
    : on_overdue_(std::move(on_overdue)) {
  for (Descriptor& control : controls) {
    ranks_.emplace_back(std::move(control));
  }
  const SignalsBlocked blocked;
  thread_ =
      std::jthread([this, &abort_flag](const std::stop_token& stop) { Watch(stop, abort_flag); });
}

FailureDetector::~FailureDetector() {
  thread_.request_stop();
  thread_.join();
  for (const WatchedRank& rank : ranks_) {
    SendEnd(rank.control());
  }
}

void FailureDetector::Watch(const std::stop_token& stop, AbortFlag& abort_flag) {
  auto last_turn = WatchedRank::Clock::now();
  std::optional<WatchedRank::Clock::time_point> failed;
  std::vector<pollfd> watched;
  for (std::int64_t turn = 0; !stop.stop_requested(); ++turn) {
    watched.clear();
    for (const WatchedRank& rank : ranks_) {
      const bool listens = !rank.has_ended() && !rank.failure();
      watched.push_back({listens ? rank.control() : -1, POLLIN, 0});
      if (turn % (kAlivePeriod / kTurn) == 0) {
        SendHeartbeat(rank.control());
      }
    }
    ::poll(watched.data(), watched.size(), static_cast<int>(kTurn.count()));
    for (std::size_t i = 0; i < watched.size(); ++i) {
      WatchedRank& rank = ranks_[i];
      if (watched[i].revents != 0 && !rank.ReadMessages() && !rank.has_ended()) {
        rank.Fail({ErrorCode::kUnavailable, "has gone"});
      }
    }
    FindSilences(ranks_, last_turn);
    const std::optional<Error> cause = FindCause(ranks_, 1);
    if (cause && !failed) {
      failed = last_turn;
    }
    if (failed && WatchedRank::Clock::now() - *failed > kOtherWords) {
      abort_flag.Raise(*cause);
      for (const WatchedRank& rank : ranks_) {
        SendFailure(rank.control(), *cause);
      }
      return WaitForEnd(stop, abort_flag, on_overdue_);
    }
  }
}

}  // namespace fathom::comm
