#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "cli/commands/commands.h"
#include "cli/terminal/interrupt.h"
#include "comm/failure_detector.h"
#include "comm/rank_link.h"
#include "comm/socket_mesh.h"

extern char** environ;

namespace fathom::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTurn(50);
// The time in which ranks may end by themselves after they learn of a failure.
constexpr std::chrono::seconds kOwnEnd(3);

// A process that runs a rank.
struct ChildProcess {
  pid_t pid = -1;
  bool has_ended = false;
};

// Returns, for example, "was killed by signal 9 (Killed)".
std::string EndInWords(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

class Ranks {
 public:
  Status Start(const LaunchCommand& command);
  // Waits until all ranks have ended. Returns the first failure, with the most specific message.
  Status Watch(Interrupt& interrupt);

 private:
  Status StartOne(int rank, const MeshEnds& ends, const LaunchCommand& command);
  void Listen(milliseconds time);
  void Reap();
  void SignalAll(int signal);
  bool HaveAllEnded() const;

  std::vector<ChildProcess> processes_;
  std::vector<WatchedRank> ranks_;  // outputs of the ranks
};

Status Ranks::Start(const LaunchCommand& command) {
  Result<std::vector<MeshEnds>> mesh = MakeSocketMesh(command.n_ranks);
  if (!mesh) return Unexpected(mesh.error());
  for (int rank = 0; rank < command.n_ranks; ++rank) {
    const Status started = StartOne(rank, (*mesh)[static_cast<std::size_t>(rank)], command);
    if (!started) {
      SignalAll(SIGKILL);
      return started;
    }
  }
  return {};
}

Status Ranks::StartOne(int rank, const MeshEnds& ends, const LaunchCommand& command) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return MakeError(ErrorCode::kResourceExhausted, "cannot start rank {}: {}", rank,
                     std::strerror(errno));
  }
  const Descriptor theirs(pair[1]);
  ChildProcess& process = processes_.emplace_back();
  ranks_.emplace_back(Descriptor(pair[0]));

  RankLink link = {.rank = rank, .control = theirs.get(), .ends = {}};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // Duplicates the descriptor to itself: the only way to keep it open.
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), theirs.get());
  for (const Descriptor& end : ends) {
    link.ends.push_back(end.get());
    if (end.get() >= 0) {
      ::posix_spawn_file_actions_adddup2(&actions, end.get(), end.get());
    }
  }
  std::vector<std::string> words = {"fathom"};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  std::string variable = fmt::format("{}={}", kRankLinkVariable, ToText(link));
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.push_back(*entry);
  }
  environment.insert(environment.end(), {variable.data(), nullptr});
  // Unblocks the signals that this process waits for, so that they end the ranks.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawn(&process.pid, "/proc/self/exe", &actions, &attributes,
                                  arguments.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return MakeError(ErrorCode::kResourceExhausted, "cannot start rank {}: {}", rank,
                     std::strerror(error));
  }
  return {};
}

void Ranks::Listen(milliseconds time) {
  std::vector<pollfd> watched;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    watched.push_back({processes_[i].has_ended ? -1 : ranks_[i].control(), POLLIN, 0});
  }
  if (::poll(watched.data(), watched.size(), static_cast<int>(time.count())) <= 0) return;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if (watched[i].revents != 0) {
      ranks_[i].ReadMessages();  // if the rank has closed its end, Reap reports how it ended
    }
  }
}

void Ranks::Reap() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    ChildProcess& process = processes_[i];
    int status = 0;
    if (process.has_ended || ::waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    ranks_[i].ReadMessages();  // the rank's last output
    process.has_ended = true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      ranks_[i].End();
    } else {
      ranks_[i].Fail({ErrorCode::kIo, EndInWords(status)});
    }
  }
}

void Ranks::SignalAll(int signal) {
  for (const ChildProcess& process : processes_) {
    if (!process.has_ended && process.pid > 0) {
      ::kill(process.pid, signal);
    }
  }
}

bool Ranks::HaveAllEnded() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const ChildProcess& process) { return process.has_ended; });
}

Status Ranks::Watch(Interrupt& interrupt) {
  std::optional<Clock::time_point> failed;
  auto last_turn = Clock::now();
  for (;;) {
    Listen(kTurn);
    Reap();
    if (!failed) {
      FindSilences(ranks_, last_turn);
    }
    // A server drains, and stops immediately after a second signal: the ranks have already received
    // the terminal's signal.
    if (interrupt.Take() && !interrupt.was_terminal()) SignalAll(SIGTERM);
    if (!failed && FindCause(ranks_, 0)) {
      failed = Clock::now();
    }
    if (failed && Clock::now() - *failed > kOtherWords) break;
    if (HaveAllEnded()) break;
  }
  if (!failed) return {};
  const Error cause = *FindCause(ranks_, 0);
  for (const WatchedRank& rank : ranks_) {
    SendFailure(rank.control(), cause);
  }
  while (!HaveAllEnded() && Clock::now() - *failed < kOwnEnd) {
    Listen(kTurn);
    Reap();
  }
  SignalAll(SIGKILL);
  for (ChildProcess& process : processes_) {
    if (!process.has_ended) ::waitpid(process.pid, nullptr, 0);
  }
  return Unexpected(cause);
}

}  // namespace

Status RunCommand(const LaunchCommand& command, Log&) {
  if (command.arguments.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "launch: expected a command, as in fathom launch -n 2 logits ...");
  }
  constexpr std::array<std::string_view, 6> kCommands = {"batch",    "bench",  "chat",
                                                         "generate", "logits", "serve"};
  const std::string& first = command.arguments.front();
  if (std::find(kCommands.begin(), kCommands.end(), first) == kCommands.end()) {
    return MakeError(ErrorCode::kUnsupported,
                     "launch: expected a command that runs on several ranks ({}), found {}",
                     fmt::join(kCommands, ", "), first);
  }
  Interrupt interrupt(Interrupt::Signals::kInterruptAndTerminate);
  Ranks ranks;
  if (Status started = ranks.Start(command); !started) return started;
  return ranks.Watch(interrupt);
}

}  // namespace fathom::cli
