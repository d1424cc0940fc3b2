// Profiler: measures the time of operations, by operation or kernel and by part of the model.
// Backend::MakeProfiler makes the profiler of a backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::kernels {

// The work of one piece.
struct WorkCost {
  std::optional<double> bytes{};  // read and written, each once; missing: not known
  std::optional<double> flops{};  // two per multiply-add of a product; missing: not a product
};

// The name of the time between two pieces of work.
inline constexpr std::string_view kBetween = "(between)";

struct ProfileRow {
  std::string part;  // part of the model (Profiler::EnterPart); empty: none was entered
  std::string name;  // name of the operation or kernel, or of other work of the device
  std::int64_t n = 0;
  double seconds = 0;  // for all n together
  WorkCost cost{};     // for all n together
};

struct ProfileEvent {
  std::string part;
  std::string name;
  double start = 0;  // seconds since Start, without the profiler's own time
  double seconds = 0;
};

// All work of the backend, and the time between: the rows, and the events, each add up to the time
// from Start to Stop (GPUs: from the first piece of work to the last).
struct Profile {
  std::vector<ProfileRow> rows;      // the longest first
  std::vector<ProfileEvent> events;  // in their order
  double seconds() const {
    double sum = 0;
    for (const ProfileRow& row : rows) sum += row.seconds;
    return sum;
  }
};

// To be used from one thread, the thread of the operations.
class Profiler {
 public:
  virtual ~Profiler() = default;
  // Begins a profile. Operations take longer until Stop. Errors: as the device.
  virtual Status Start() = 0;
  // Assigns the following operations to this part of the model; empty: to no part.
  virtual void EnterPart(std::string_view part) = 0;
  // Waits for all operations since Start, and returns the profile. Errors: as the device.
  virtual Result<Profile> Stop() = 0;
};

}  // namespace fathom::kernels
