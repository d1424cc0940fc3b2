// fathom: runs DeepSeek-V4 from the command line.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <variant>

#include "base/guarded.h"
#include "base/lost_pages.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/load_display.h"
#include "cli/terminal/log.h"
#include "cli/terminal/output.h"
#include "runtime/rank_process.h"
#include "runtime/runtime.h"

namespace fathom::cli {
namespace {

int ReportStatus(const Status& status) {
  if (status) return 0;
  if (!IsQuiet(status.error())) {
    PrintError("fathom: error: " + status.error().message + "\n");
  }
  return 1;
}

// Checks the limit of stacks, which applies to all threads. With a smaller one, a deep call would
// end the program without a message.
Status CheckStack() {
  constexpr rlim_t kLeastKibibytes = 2048;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur / 1024 >= kLeastKibibytes) return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   "stack: expected at least {} KiB (ulimit -s), found {}", kLeastKibibytes,
                   limit.rlim_cur / 1024);
}

// Allocates the stack of the main thread, which computes, at start. The kernels use a megabyte of
// it, and if no memory is left when its stack grows, the process ends without a message.
[[gnu::noinline]] void GrowStack() {
  constexpr std::size_t kPage = 4096;
  volatile std::byte pages[1536 * 1024];  // below the least limit of CheckStack
  for (std::size_t i = 0; i < sizeof(pages); i += kPage) {
    pages[sizeof(pages) - 1 - i] = std::byte{0};
  }
}

// Runs the command that was parsed.
struct CommandRunner {
  Log& log;

  template <class Command>
  Status operator()(const Command& command) {
    if constexpr (requires { command.run; }) {
      return OnRanks(command);
    } else {
      return RunCommand(command, log);
    }
  }

  // A command with an engine runs on the first rank, and the other ranks compute their parts; any
  // other command runs on all ranks. The end is reported before the ranks separate, which may end
  // this process.
  template <class Command>
  Status OnRanks(const Command& command) {
    RankProcess session(command.run.ranks, [](const Error& reason) {
      static_cast<void>(ReportStatus(Unexpected(reason)));
      ::_exit(EXIT_FAILURE);
    });
    Status status = Guarded([&] { return session.Join(); });
    if (status) {
      if (session.is_first() && !session.warning().empty()) log.Warn("{}", session.warning());
      status = Guarded([&] { return RunOn(command, session); });
    }
    status = session.Conclude(std::move(status));
    if (status || session.is_alone()) return status;
    static_cast<void>(ReportStatus(status));
    return Unexpected({status.error().code, ""});
  }

  template <class Command>
  Status RunOn(const Command& command, RankProcess& session) {
    if constexpr (requires { command.engine; }) {
      if (!session.is_first()) {
        Interrupt interrupt(Interrupt::Signals::kInterruptAndTerminate);  // for the first rank
        LoadDisplay display(command.run.model, log, &interrupt);
        return FollowEngine(command.run, session, display.events());
      }
      Status status = RunCommand(command, session, log);
      session.End();
      return status;
    } else {
      return RunCommand(command, session, log);
    }
  }
};

int Run(int argc, char** argv) {
  const CommandLine line = ParseCommandLine(argc, argv);
  if (!line.options) {
    PrintError(line.error);
    const int printed = ReportStatus(Print(line.out));
    return line.exit_code != 0 ? line.exit_code : printed;
  }
  Log log(line.options->log_level, line.options->log_format);
  for (const std::string& option : line.options->dropped) {
    log.Warn("{} is ignored: what it would choose is always right here", option);
  }
  const Status status = std::visit(CommandRunner{log}, line.options->command);
  return ReportStatus(status);
}

}  // namespace

int RunGuarded(int argc, char** argv) {
  if (const Status enough = CheckStack(); !enough) return ReportStatus(enough);
  GrowStack();
  int exit_code = 1;
  const Status status = Guarded([&]() -> Status {
    exit_code = Run(argc, argv);
    return {};
  });
  return status ? exit_code : ReportStatus(status);
}

}  // namespace fathom::cli

int main(int argc, char** argv) {
  // A closed pipe is an error of write, not the end of the program.
  ::signal(SIGPIPE, SIG_IGN);
  fathom::HandleLostPages();
  return fathom::cli::RunGuarded(argc, argv);
}
