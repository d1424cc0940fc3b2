// MemoryPressure: detects whether this process, or its machine, is short of memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace fathom {

// The state at one moment, and the change since the previous reading.
struct PressureReading {
  // The share of the time since the last reading in which some thread waited for memory.
  double stalled = 0;
  bool hit_limit = false;      // since then, a control group reached memory.high or memory.max
  bool below_reserve = false;  // the machine has less available than it should keep
  std::int64_t swapped = 0;    // bytes of this process in swap

  // Returns true for PSI above 10 %, a limit that was hit, or too little available memory.
  bool is_short() const { return stalled > 0.1 || hit_limit || below_reserve; }
};

// Reads /proc and /sys/fs/cgroup below `root`: memory.pressure of the process's own control group,
// or else of the machine; memory.events of all its groups, or memory.failcnt of groups of version
// 1. Values that a system does not report count as no pressure. One thread.
class MemoryPressure {
 public:
  using Clock = std::chrono::steady_clock;

  // `reserve`: bytes that the machine should keep available. `took_memory`, called once for each
  // reading, returns whether this process itself has allocated memory since the last call. The
  // system drops pages of files for such memory, so that stalls and reached limits prove nothing.
  // Empty: never.
  explicit MemoryPressure(std::int64_t reserve, std::filesystem::path root = "/",
                          std::function<bool()> took_memory = {});

  // Call every 2 seconds. The first reading has no share and no limits.
  PressureReading Read(Clock::time_point now);

 private:
  std::optional<std::int64_t> StalledMicroseconds() const;
  std::int64_t CountLimits() const;

  std::int64_t reserve_;
  std::filesystem::path root_;
  std::function<bool()> took_memory_;
  std::filesystem::path psi_;                       // memory.pressure or /proc/pressure/memory
  std::vector<std::filesystem::path> event_files_;  // memory.events or memory.failcnt of all groups
  std::optional<Clock::time_point> last_time_;
  std::optional<std::int64_t> last_stalled_;
  std::int64_t last_limits_ = 0;
};

}  // namespace fathom
