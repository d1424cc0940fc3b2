// SignalsBlocked: blocks signals in the threads that are started during its lifetime; the thread
// that waits for signals receives them (cli/terminal/interrupt.h).
#pragma once

#include <signal.h>

namespace fathom {

// Blocks the signals of the calling thread during its lifetime.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) {
      ::sigdelset(&all, fault);  // a blocked fault would end the process without its handler
    }
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace fathom
