// CompileTurns: decides when and on which thread the constraints of requests are compiled.
#pragma once

#include <functional>
#include <memory>

#include "base/caller.h"
#include "base/fair_turns.h"
#include "constraint/constraint.h"

namespace fathom::runtime {

// Most constraints are known or compiled in a millisecond, on the thread of the request; two
// requests may do this concurrently. A compilation that takes longer than 4 ms begins again on its
// own thread with the least priority, in one of two slow places. Places of both kinds go to owners
// in turn (FairTurns). So no request waits for the long compilations of other owners, and neither
// do models and masks. Any thread.
class CompileTurns {
 public:
  using Compiled = ConstraintResult<std::shared_ptr<const Constraint>>;
  // Compiles a constraint like ConstraintCompiler::Compile. May be called twice, on two threads.
  using Work = std::function<Compiled(WorkPace& pace)>;

  // Returns the result of `work`. Error (kStopped): the caller has abandoned it.
  Compiled Compile(const Caller& caller, const Work& work);

 private:
  Compiled CompileSlowly(const Caller& caller, const Work& work);

  static constexpr int kPlaces = 2;
  FairTurns quick_{{.places = kPlaces}};
  // Work that has begun uses memory, so an owner begins only two; its other work waits.
  FairTurns begun_{{.per_owner = 2}};
  FairTurns slow_{{.places = kPlaces}};
};

}  // namespace fathom::runtime
