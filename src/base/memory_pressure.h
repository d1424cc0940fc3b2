// MemoryPressure: whether this process, or its machine, is short of memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fathom {

// The state at one moment, and the change since the last.
struct PressureReading {
  // The share of the time in which some thread waited for memory, since the last reading.
  double stalled = 0;
  bool hit_limit = false;      // a control group has reached memory.high or memory.max since then
  bool below_reserve = false;  // the machine has less available than it should keep
  std::int64_t swapped = 0;    // bytes of this process that lie in swap

  // PSI above 10 %, a limit that was hit, or little available.
  bool is_short() const { return stalled > 0.1 || hit_limit || below_reserve; }
};

// Reads /proc and /sys/fs/cgroup below `root`: memory.pressure of the process's own control group,
// else that of the machine; memory.events of all its groups, or memory.failcnt where they are of
// version 1. What a system does not say counts as no pressure. One thread.
class MemoryPressure {
 public:
  using Clock = std::chrono::steady_clock;

  // `reserve`: bytes that the machine should keep available. `takes_memory`: called by Read; while
  // it is true, this process takes memory itself, and the system drops pages of files for it:
  // stalls and limits that are hit say nothing. Empty: never.
  explicit MemoryPressure(std::int64_t reserve, std::filesystem::path root = "/",
                          std::function<bool()> takes_memory = {});

  // Call every 2 seconds. The first reading has no share and no limits.
  PressureReading Read(Clock::time_point now);

 private:
  std::optional<std::int64_t> StalledMicroseconds() const;
  std::int64_t CountLimits() const;

  std::int64_t reserve_;
  std::filesystem::path root_;
  std::function<bool()> takes_memory_;
  bool took_memory_ = false;                        // at the last reading
  std::filesystem::path psi_;                       // memory.pressure or /proc/pressure/memory
  std::vector<std::filesystem::path> event_files_;  // memory.events or memory.failcnt of all groups
  std::optional<Clock::time_point> last_time_;
  std::optional<std::int64_t> last_stalled_;
  std::int64_t last_limits_ = 0;
};

}  // namespace fathom
