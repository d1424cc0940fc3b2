// ProcessUsage: what this process has taken of the machine, for /metrics.
#pragma once

#include <cstdint>

namespace fathom {

struct ProcessUsage {
  double cpu_seconds = 0;    // of all threads, in user and in system mode
  double start_seconds = 0;  // when it was started, since 1970
  std::int64_t virtual_bytes = 0;
  std::int64_t resident_bytes = 0;
  std::int64_t open_descriptors = 0;
  std::int64_t max_descriptors = 0;
};

// Reads /proc; what cannot be read is 0. Any thread.
ProcessUsage UsageOfThisProcess();

}  // namespace fathom
