// WorkMeter: the work and the memory that a constraint has cost, in steps and bytes that are the
// same on every machine, so that all machines refuse the same constraints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "constraint/constraint_memory.h"
#include "constraint/work_pace.h"

namespace fathom::constraint {

// A step is some work that takes about 50 nanoseconds: making a node of an expression, looking at a
// few operands, moving over a few nodes of a trie. Bytes are estimated from what is kept, not asked
// of the allocator.
struct WorkLimits {
  std::uint64_t steps = std::numeric_limits<std::uint64_t>::max();
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
};

// Limits of compiling a constraint, up to the beginning of its text: less than 2 s of a processor
// and 64 MiB (docs/spec/constrained.md 1.2), because a step may take twice as long on an old
// processor, and the allocator keeps more than it is asked for.
inline constexpr WorkLimits kCompileLimits = {.steps = 6'000'000, .bytes = std::size_t{48} << 20};
// Limits of an automaton beyond its grammar, for the text of an answer and the mask after it.
inline constexpr WorkLimits kAutomatonLimits = {.steps = 30'000'000,
                                                .bytes = std::size_t{512} << 20};

// Shared by everything that works on one grammar. One thread at a time.
class WorkMeter {
 public:
  enum class End {
    kNone,
    kSteps,    // more steps than the limit
    kBytes,    // more bytes than the limit
    kStopped,  // ended by the pace
  };

  WorkMeter() = default;
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  // Limits the steps and the growth of the bytes from now on.
  void SetLimits(const WorkLimits& limits);
  // Counts against `memory`, which other meters share. Call before the first work.
  void SetMemory(std::shared_ptr<ConstraintMemory> memory);
  // Lets `owner` free the memory between two pieces of work. Only with SetMemory.
  void SetOwner(std::weak_ptr<FreeableMemory> owner);
  // Begins and ends work, during which the pace is asked, if it is not null. `more_bytes`: the
  // bytes that are kept besides the counted ones.
  void BeginWork(WorkPace* pace) { pace_ = pace; }
  void EndWork(std::size_t more_bytes);

  // Counts work whose result is kept.
  void Spend(std::uint64_t steps) {
    n_steps_ += steps;
    Pass(steps);
  }
  // Counts work that is repeated for each text or mask: it has limits of its own.
  void Pass(std::uint64_t steps) {
    n_passed_ += steps;
    if (n_passed_ >= next_look_) Look();
  }
  void Keep(std::size_t bytes) {
    n_bytes_ += bytes;
    if (n_bytes_ > next_byte_) Reach();
  }
  void Release(std::size_t bytes) { n_bytes_ -= bytes; }

  // True once the work has ended: it never goes on, and what it found since then must not be used.
  bool HasEnded() const { return end_ != End::kNone; }
  End end() const { return end_; }
  std::uint64_t n_steps() const { return n_steps_; }
  std::size_t n_bytes() const { return n_bytes_; }
  const WorkLimits& limits() const { return limits_; }

 private:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  void SetEnd(End end) {
    if (end_ == End::kNone) end_ = end;
  }
  void SetNextLook();
  void Look();
  void Reach();

  WorkLimits limits_;
  std::uint64_t n_steps_ = 0;
  std::uint64_t last_step_ = kNoLimit;
  std::uint64_t n_passed_ = 0;   // steps of all work since the last look at limit and pace
  std::uint64_t next_look_ = 0;  // n_passed_ at the next look, which comes no later than the limit
  std::size_t n_bytes_ = 0;
  std::size_t last_byte_ = kNoLimit;
  std::size_t next_byte_ = kNoLimit;  // n_bytes_ up to which there is room
  std::unique_ptr<ConstraintMemory::Account> account_;
  WorkPace* pace_ = nullptr;
  End end_ = End::kNone;
};

}  // namespace fathom::constraint
