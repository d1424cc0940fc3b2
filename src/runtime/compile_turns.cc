#include "runtime/compile_turns.h"

#include <chrono>
#include <string>
#include <thread>

#include "base/guarded.h"
#include "base/this_thread.h"

namespace fathom::runtime {
namespace {

// The pace of work that continues as long as a caller waits for it. The first check takes a place:
// constraints that are known, or compiled before that check, need none. Work has no place while it
// waits for locks of others.
class TurnPace : public WorkPace {
 public:
  TurnPace(FairTurns& turns, const Caller& caller)
      : turn_(turns, caller.owner), is_abandoned_(caller.is_abandoned) {}

  bool GoesOn() override {
    const auto now = std::chrono::steady_clock::now();
    if (!has_ended_ && now >= next_look_) {
      has_ended_ = is_abandoned_ && is_abandoned_();
      next_look_ = now + kLook;
    }
    if (!has_ended_ && !waits_) has_ended_ = !turn_.GoOn(is_abandoned_);
    return !has_ended_;
  }
  void BeginWait() override {
    waits_ = true;
    turn_.Leave();
  }
  void EndWait() override { waits_ = false; }

 private:
  static constexpr std::chrono::milliseconds kLook{20};  // may call the system
  FairTurn turn_;
  const StopFunction& is_abandoned_;
  std::chrono::steady_clock::time_point next_look_{};
  bool waits_ = false;
  bool has_ended_ = false;
};

// Ends work that takes too long, too.
class QuickPace final : public TurnPace {
 public:
  using TurnPace::TurnPace;

  bool GoesOn() override {
    is_slow_ = is_slow_ || watch_.HasRun(kQuickSeconds);
    return !is_slow_ && TurnPace::GoesOn();
  }
  bool is_slow() const { return is_slow_; }

 private:
  static constexpr double kQuickSeconds = 0.004;
  ThreadWatch watch_;
  bool is_slow_ = false;
};

tl::unexpected<ConstraintError> Stopped() {
  return tl::unexpected(
      MakeConstraintError(ConstraintErrorCode::kStopped, "the request was abandoned"));
}

// Does work on its own thread; on this thread if the system cannot start another.
void DoWithLeastPriority(const std::function<void()>& work) {
  std::jthread thread;
  const Status started = Guarded([&]() -> Status {
    thread = std::jthread([&work] {
      TakeLeastPriority();
      work();
    });
    return {};
  });
  if (!started) work();
}

}  // namespace

CompileTurns::Compiled CompileTurns::Compile(const Caller& caller, const Work& work) {
  {
    QuickPace pace(quick_, caller);
    Compiled compiled = work(pace);
    if (compiled || compiled.error().code != ConstraintErrorCode::kStopped || !pace.is_slow()) {
      return compiled;
    }
  }
  return CompileSlowly(caller, work);
}

CompileTurns::Compiled CompileTurns::CompileSlowly(const Caller& caller, const Work& work) {
  FairTurn begun(begun_, caller.owner);
  if (!begun.Enter(caller.is_abandoned)) return Stopped();
  Compiled compiled = Stopped();
  DoWithLeastPriority([&] {
    TurnPace pace(slow_, caller);
    const Status done = Guarded([&]() -> Status {
      compiled = work(pace);
      return {};
    });
    if (!done) {
      compiled =
          tl::unexpected(MakeConstraintError(ConstraintErrorCode::kTooLarge, done.error().message));
    }
  });
  return compiled;
}

}  // namespace fathom::runtime
