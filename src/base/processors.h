// The processors this process may use: affinity mask, cores, quota.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

namespace fathom {

// Logical processors are named by the numbers the system gives them. `root` is where /proc and /sys
// are found; tests have their own.

// The affinity mask of the calling thread, ascending; at least one.
std::vector<int> AllowedProcessors();

// The first of `allowed` on each physical core, ascending: hyper-threads of a core share its
// arithmetic and its way to memory. What the system does not describe counts as a core.
std::vector<int> OnePerCore(std::span<const int> allowed, const std::filesystem::path& root = "/");

// How many processors' time the control group of this process may use, the smallest limit from its
// own group up to the root (version 2, and version 1 where that rules); infinity if there is none.
double ProcessorQuota(const std::filesystem::path& root = "/");

// The default number of threads: the physical cores in the affinity mask, at most what the quota
// pays for in full (a thread more would stop all of them for the rest of each period); at least 1.
int AvailableCores();

// Binds the calling thread to one processor; false if it is not allowed to.
bool BindThisThread(int processor);

}  // namespace fathom
