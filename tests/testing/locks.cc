#include "tests/testing/locks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/pages.h"

namespace fathom::testing {

bool MayLock(std::int64_t bytes) {
  const Result<PageMemory> memory = PageMemory::Allocate(bytes);
  return memory && LockPages(memory->bytes(), bytes, "a trial");
}

bool LimitLocks(std::int64_t bytes) {
  constexpr uid_t kNobody = 65534;  // root has the right to lock without limit
  const rlimit limit = {static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  return ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && (::geteuid() != 0 || ::seteuid(kNobody) == 0);
}

std::int64_t LockedKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:")) {
      return std::stoll(line.substr(6));
    }
  }
  return -1;
}

}  // namespace fathom::testing
