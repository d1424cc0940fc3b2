// WorkPace: decides whether and when long work on a constraint goes on.
#pragma once

namespace fathom::constraint {

// Asked from time to time, on the thread that does the work: about every 50 microseconds of
// reading a schema, making an automaton or computing a mask. It changes when the work is done, and
// whether; never its result.
class WorkPace {
 public:
  virtual ~WorkPace() = default;
  // May wait, so that other work goes first. False: nobody needs the result; the work ends soon,
  // with an error of kUnavailable.
  virtual bool GoesOn() = 0;
  // The thread waits from here to EndWait for a lock or for memory that other work may hold for
  // long. GoesOn may be asked meanwhile.
  virtual void BeginWait() {}
  virtual void EndWait() {}

 protected:
  WorkPace() = default;
  WorkPace(const WorkPace&) = default;
  WorkPace& operator=(const WorkPace&) = default;
};

}  // namespace fathom::constraint
