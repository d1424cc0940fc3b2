#include "base/memory_pressure.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/control_groups.h"
#include "base/pages.h"
#include "base/parse_text.h"

namespace fathom {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFailures = "memory.failcnt";  // in version 1: one number

}  // namespace

MemoryPressure::MemoryPressure(std::int64_t reserve, fs::path root,
                               std::function<bool()> took_memory)
    : reserve_(reserve),
      root_(std::move(root)),
      took_memory_(std::move(took_memory)),
      psi_(root_ / "proc/pressure/memory") {
  std::error_code error;
  for (const ControlGroup& group : FindControlGroups("memory", root_)) {
    if (group.version == 1) {
      if (fs::exists(group.folder / kFailures, error)) {
        event_files_.push_back(group.folder / kFailures);
      }
      continue;
    }
    // The groups of a hierarchy come from the top down: the last existing one is the process's own.
    if (fs::exists(group.folder / "memory.pressure", error)) {
      psi_ = group.folder / "memory.pressure";
    }
    if (fs::exists(group.folder / "memory.events", error)) {
      event_files_.push_back(group.folder / "memory.events");
    }
  }
}

// Parses "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": microseconds.
std::optional<std::int64_t> MemoryPressure::StalledMicroseconds() const {
  std::ifstream file(psi_);
  for (std::string line; std::getline(file, line);) {
    std::string_view text = line;
    const std::size_t total = text.find("total=");
    if (!text.starts_with("some ") || total == text.npos) continue;
    return ParseNumber<std::int64_t>(text.substr(total + 6));
  }
  return std::nullopt;
}

std::int64_t MemoryPressure::CountLimits() const {
  // A count is limited to this, so that nonsense cannot overflow.
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t count = 0;
  for (const fs::path& path : event_files_) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::string_view text = line;
      const bool counts =
          path.filename() == kFailures || TakePrefix(text, "high ") || TakePrefix(text, "max ");
      if (!counts) continue;
      count += std::clamp<std::int64_t>(ParseNumber<std::int64_t>(text).value_or(0), 0, kMost);
    }
  }
  return count;
}

PressureReading MemoryPressure::Read(Clock::time_point now) {
  PressureReading reading = {.swapped = SwappedBytes(root_)};
  const std::optional<std::int64_t> available = AvailableMemory(root_);
  reading.below_reserve = available && *available < reserve_;
  const std::optional<std::int64_t> stalled = StalledMicroseconds();
  const std::int64_t limits = CountLimits();
  const bool is_own = took_memory_ && took_memory_();
  if (!is_own && last_time_ && now > *last_time_) {
    const double elapsed = std::chrono::duration<double, std::micro>(now - *last_time_).count();
    if (stalled && last_stalled_ && *stalled > *last_stalled_) {
      reading.stalled =
          (static_cast<double>(*stalled) - static_cast<double>(*last_stalled_)) / elapsed;
    }
    reading.hit_limit = limits > last_limits_;
  }
  last_time_ = now;
  last_stalled_ = stalled;
  last_limits_ = limits;
  return reading;
}

}  // namespace fathom
