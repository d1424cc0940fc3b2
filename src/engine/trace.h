// TraceWriter: writes the engine's activities and their times in the trace event format of Chrome
// and Perfetto.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace fathom::engine {

// Writes a JSON array of events, well formed after Close; viewers also read the file of a killed
// program. A write that fails (a full disk) ends the trace and nothing else. One thread at a time.
class TraceWriter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Argument {
    std::string_view name;
    double value = 0;
  };

  static Result<std::unique_ptr<TraceWriter>> Open(const std::filesystem::path& path);
  ~TraceWriter();  // closes

  // Adds a span to a track: steps on track 0, each request on its own track. Names are plain ASCII
  // words.
  void Span(std::string_view name, std::int64_t track, Clock::time_point begin,
            Clock::time_point end, std::span<const Argument> arguments = {});
  // Adds a moment to a track.
  void Instant(std::string_view name, std::int64_t track, Clock::time_point at,
               std::span<const Argument> arguments = {});
  // Sets the name that a viewer shows for a track.
  void NameTrack(std::int64_t track, std::string_view name);
  // Adds values over time.
  void Counter(std::string_view name, Clock::time_point at, std::span<const Argument> values);

  Status Close();

 private:
  struct Impl;
  explicit TraceWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::engine
