#include "cli/terminal/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>

namespace fathom::cli {
namespace {

sigset_t MakeSignalSet(Interrupt::Signals signals) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  if (signals == Interrupt::Signals::kInterruptAndTerminate) {
    ::sigaddset(&set, SIGTERM);
  }
  return set;
}

}  // namespace

Interrupt::Interrupt(Signals signals) : set_(MakeSignalSet(signals)) {
  descriptor_ = ::signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ >= 0) {
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
}

Interrupt::~Interrupt() {
  if (descriptor_ >= 0) {
    static_cast<void>(Take());  // an old Ctrl-C must not end the program now
    ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    ::close(descriptor_);
  }
}

bool Interrupt::Take() {
  signalfd_siginfo info;
  bool pressed = false;
  bool is_terminal = true;
  while (descriptor_ >= 0 &&
         ::read(descriptor_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    pressed = true;
    last_ = static_cast<int>(info.ssi_signo);
    is_terminal = is_terminal && info.ssi_code == SI_KERNEL;
  }
  if (pressed) was_terminal_ = is_terminal;
  return pressed;
}

bool Interrupt::WaitFor(int descriptor) {
  std::array<pollfd, 2> watched = {
      pollfd{.fd = descriptor, .events = POLLIN, .revents = 0},
      pollfd{.fd = descriptor_, .events = POLLIN, .revents = 0},  // poll ignores -1
  };
  for (;;) {
    if (::poll(watched.data(), watched.size(), -1) <= 0) {
      continue;  // another signal
    }
    if (watched[1].revents != 0) return false;
    if (watched[0].revents != 0) return true;
  }
}

void Interrupt::EndProgramIfPressed() {
  if (Take()) {
    ::signal(last_, SIG_DFL);
    ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    ::raise(last_);
  }
}

}  // namespace fathom::cli
