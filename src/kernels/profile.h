// Profiler: where the time of operations goes, by kernel. Backend::MakeProfiler makes the profiler
// of a backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace fathom {

struct ProfileRow {
  std::string name;  // of the kernel, or of other work of the device
  std::int64_t n = 0;
  double seconds = 0;           // of all n together
  std::optional<double> bytes;  // read and written, each once; missing: not known
};

// Everything that the device did, and the time between: the rows add up to the time from the first
// piece of work to the last.
struct Profile {
  std::vector<ProfileRow> rows;  // the longest first
  double seconds() const;
};

// One thread, that of the operations.
class Profiler {
 public:
  virtual ~Profiler() = default;
  // Begins a profile. Operations take longer until Stop. Error: those of the device.
  virtual Status Start() = 0;
  // Waits for all operations since Start, and returns the profile. Errors: those of the device.
  virtual Result<Profile> Stop() = 0;
};

}  // namespace fathom
