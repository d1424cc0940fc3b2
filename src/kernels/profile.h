// Profiler: where the time of operations goes, by operation or kernel and by part of the model.
// Backend::MakeProfiler makes the profiler of a backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom {

// The work of a piece.
struct WorkCost {
  std::optional<double> bytes{};  // read and written, each once; missing: not known
  std::optional<double> flops{};  // two per multiply-add of a product; missing: no product
};

// The name of the time between two pieces of work.
inline constexpr std::string_view kBetween = "(between)";

struct ProfileRow {
  std::string part;  // of the model (Profiler::EnterPart); empty: none was entered
  std::string name;  // of the operation or kernel, or of other work of the device
  std::int64_t n = 0;
  double seconds = 0;  // of all n together
  WorkCost cost{};     // of all n together
};

struct ProfileEvent {
  std::string part;
  std::string name;
  double start = 0;  // seconds since Start, without the time that the profiler itself has taken
  double seconds = 0;
};

// Everything that the backend did, and the time between: the rows, and the events, add up to the
// time from Start to Stop (GPUs: from the first piece of work to the last).
struct Profile {
  std::vector<ProfileRow> rows;      // the longest first
  std::vector<ProfileEvent> events;  // in their order
  double seconds() const;
};

// One thread, that of the operations.
class Profiler {
 public:
  virtual ~Profiler() = default;
  // Begins a profile. Operations take longer until Stop. Error: those of the device.
  virtual Status Start() = 0;
  // The operations from now on belong to this part of the model; empty: to none.
  virtual void EnterPart(std::string_view part) = 0;
  // Waits for all operations since Start, and returns the profile. Errors: those of the device.
  virtual Result<Profile> Stop() = 0;
};

}  // namespace fathom
