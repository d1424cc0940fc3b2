// Interrupt: turns Ctrl-C into an event that the program polls.
#pragma once

#include <signal.h>

namespace fathom::cli {

// While this object exists, SIGINT (and SIGTERM, if requested) ends nothing and waits for Take. The
// signal is blocked and read from a descriptor, so there is no handler and no global flag. Create
// the object before any other thread is started, because threads inherit blocked signals. One
// object at a time; one thread.
class Interrupt {
 public:
  enum class Signals { kInterrupt, kInterruptAndTerminate };

  explicit Interrupt(Signals signals = Signals::kInterrupt);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Returns whether Ctrl-C was pressed since the last call.
  bool Take();
  // Returns whether all signals that Take returned came from the terminal, which sends Ctrl-C to
  // all processes in its foreground.
  bool was_terminal() const { return was_terminal_; }
  // Waits until `descriptor` can be read (true) or Ctrl-C is pressed (false; then call Take).
  bool WaitFor(int descriptor);
  // Ends the program like the signal if there was one: for times when there is no earlier state to
  // return to.
  void EndProgramIfPressed();

 private:
  const sigset_t set_;
  int last_ = SIGINT;  // the signal that was taken last
  bool was_terminal_ = false;
  int descriptor_ = -1;  // -1: signals cannot be watched here, and SIGINT ends the program
};

}  // namespace fathom::cli
