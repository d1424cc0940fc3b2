#include "parallel/rank_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <stop_token>
#include <utility>

namespace fathom {
namespace {

constexpr std::string_view kFailure = "failed ";

void SendLine(int control, std::string line) {
  line += '\n';
  static_cast<void>(::send(control, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// Takes a number and the separator behind it (which the last has not) off the text.
bool TakeNumber(std::string_view& text, char separator, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.empty() && text.front() != separator) {
    return false;
  }
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
  bool is_right = TakeNumber(text, ':', link.rank) && TakeNumber(text, ':', link.control);
  while (is_right && !text.empty()) {
    link.ends.push_back(-1);
    is_right = TakeNumber(text, ',', link.ends.back());
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
  if (!line.starts_with(kFailure) || !TakeNumber(rest, ' ', code) || code < 0 ||
      code > static_cast<int>(ErrorCode::kIo)) {
    return {ErrorCode::kIo, fmt::format("said \"{}\"", line)};
  }
  return {static_cast<ErrorCode>(code), std::string(rest)};
}

Heartbeat::Heartbeat(int control, Alarm& alarm)
    : thread_([control, &alarm](const std::stop_token& stop) {
        constexpr int kTurnMs = 50;  // how soon the thread ends
        std::string text;
        for (std::int64_t turn = 0; !stop.stop_requested(); ++turn) {
          if (turn % (kAlivePeriod.count() / kTurnMs) == 0) {
            SendLine(control, std::string(kAliveLine));
          }
          pollfd watched = {.fd = control, .events = POLLIN, .revents = 0};
          if (::poll(&watched, 1, kTurnMs) <= 0) {
            continue;
          }
          std::array<char, 512> buffer;
          const ssize_t n_read = ::recv(control, buffer.data(), buffer.size(), MSG_DONTWAIT);
          if (n_read == 0) {
            ::_exit(EXIT_FAILURE);
          }
          text.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(n_read, 0)));
          if (const std::size_t end = text.find('\n'); end != std::string::npos) {
            Error error = ParseFailureLine(text.substr(0, end));
            error.code = ErrorCode::kUnavailable;  // a consequence here
            alarm.Raise(std::move(error));
            text.erase(0, end + 1);
          }
        }
      }) {}

void TellFailure(int control, const Error& error) { SendLine(control, FailureLine(error)); }

}  // namespace fathom
