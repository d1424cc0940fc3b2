// Finds the processors that this process may use: affinity mask, cores, quota.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace fathom {

// Logical processors have the numbers of the system. `root` is the folder that contains /proc and
// /sys; tests use folders of their own.

// Returns the affinity mask of the calling thread, ascending; at least one.
std::vector<int> AllowedProcessors();

// Returns the first of `allowed` on each physical core, ascending: hyper-threads of a core share
// its arithmetic and its memory bandwidth. A processor that the system does not describe counts as
// a core.
std::vector<int> OnePerCore(std::span<const int> allowed, const std::filesystem::path& root = "/");

// Returns the total bytes of the last-level caches of `processors`; 0: the system does not report
// them.
std::int64_t CacheBytes(std::span<const int> processors, const std::filesystem::path& root = "/");

// Returns the number of processors whose time the control group of this process may use: the
// smallest limit from its own group up to the root (version 2, and version 1 where it applies);
// infinity: no limit.
double ProcessorQuota(const std::filesystem::path& root = "/");

// Returns the default number of threads: the physical cores in the affinity mask, at most the quota
// rounded down (one thread more would stop all of them for the rest of each period), at least 1.
int AvailableCores();

// Returns true if n_threads computing threads leave no processor of the affinity mask to another
// thread.
bool FillsProcessors(int n_threads);

// Binds the calling thread to one processor. Returns false if that is not allowed.
bool BindThisThread(int processor);

}  // namespace fathom
