// ProcessUsage: the resources that this process uses, for /metrics.
#pragma once

#include <cstdint>

namespace fathom {

struct ProcessUsage {
  double cpu_seconds = 0;    // user and system time of all threads
  double start_seconds = 0;  // start of the process, since 1970
  std::int64_t virtual_bytes = 0;
  std::int64_t resident_bytes = 0;
  std::int64_t open_descriptors = 0;
  std::int64_t max_descriptors = 0;
};

// Reads /proc; a value that cannot be read is 0. Any thread.
ProcessUsage UsageOfThisProcess();

}  // namespace fathom
