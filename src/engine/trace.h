// TraceWriter: what the engine did when, in the trace event format of Chrome and Perfetto.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace fathom {

// A JSON array of events that is well formed after Close, and still read by the viewers if the
// program was killed. A write that fails (a full disk) ends the trace and nothing else. One thread
// at a time.
class TraceWriter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Argument {
    std::string_view name;
    double value = 0;
  };

  static Result<std::unique_ptr<TraceWriter>> Open(const std::filesystem::path& path);
  ~TraceWriter();  // closes

  // A span on a track: steps on track 0, each request on its own. Names are plain ASCII words.
  void Span(std::string_view name, std::int64_t track, Clock::time_point begin,
            Clock::time_point end, std::span<const Argument> arguments = {});
  // A moment.
  void Instant(std::string_view name, std::int64_t track, Clock::time_point at,
               std::span<const Argument> arguments = {});
  // What a viewer calls a track.
  void NameTrack(std::int64_t track, std::string_view name);
  // Values over time.
  void Counter(std::string_view name, Clock::time_point at, std::span<const Argument> values);

  Status Close();

 private:
  struct Impl;
  explicit TraceWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
