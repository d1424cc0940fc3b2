// Fiber: a function on a stack of its own, run piece by piece.
//
// A thread of an emulated block is a fiber: it runs until it waits for others, then the next one
// runs. A switch costs about 10 ns on x86-64. Threads: the one that resumes it.
#pragma once

#include <cstddef>
#include <memory>

namespace fathom::emulator {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Sets what the next Resume begins. A body that has not ended is forgotten, with no destructors
  // run. The body must not throw.
  void Start(void (*body)(void*), void* argument);
  // Runs the body until it calls Pause or ends. Not after it has ended.
  void Resume();
  // Called by the body: returns to Resume, and from here at the next Resume.
  void Pause();
  // Called by the body: goes on with another fiber, which has not ended, as if Resume had been
  // called for that one. From here at the next Resume, or SwitchTo, of this one.
  void SwitchTo(Fiber& next);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fathom::emulator
