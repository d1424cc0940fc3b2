// Interrupt: Ctrl-C as something to ask for, not something that happens.
#pragma once

#include <signal.h>

namespace fathom::cli {

// While it lives, SIGINT (and SIGTERM, if that is asked for) ends nothing: it waits to be taken.
// The signal is blocked and read from a descriptor, so there is no handler and no global flag. Make
// it before any other thread is started: threads inherit what is blocked. One at a time; one
// thread.
class Interrupt {
 public:
  enum class Signals { kInterrupt, kInterruptAndTerminate };

  explicit Interrupt(Signals signals = Signals::kInterrupt);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Whether Ctrl-C was pressed since the last call.
  bool Take();
  // Whether all that Take took came from the terminal, which sends Ctrl-C to all processes that run
  // in its foreground.
  bool was_terminal() const { return was_terminal_; }
  // Waits until `descriptor` can be read (true) or Ctrl-C is pressed (false; Take is then due).
  bool WaitFor(int descriptor);
  // Ends the program as the signal does if there was one: for times when there is nothing to go
  // back to.
  void EndProgramIfPressed();

 private:
  const sigset_t set_;
  int last_ = SIGINT;  // the signal that was taken last
  bool was_terminal_ = false;
  int descriptor_ = -1;  // -1: signals cannot be watched here, and SIGINT ends the program as ever
};

}  // namespace fathom::cli
