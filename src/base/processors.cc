#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/control_groups.h"
#include "base/parse_text.h"

namespace fathom {
namespace {

constexpr int kMostProcessors = 1 << 16;
constexpr std::int64_t kMostCacheUnits = 1 << 20;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// A set of processors of any size: the plain cpu_set_t ends at 1024.
class Mask {
 public:
  Mask() : sets_(kMostProcessors / CPU_SETSIZE) { CPU_ZERO_S(bytes(), sets_.data()); }
  cpu_set_t* data() { return sets_.data(); }
  std::size_t bytes() const { return sets_.size() * sizeof(cpu_set_t); }
  void Add(int processor) { CPU_SET_S(static_cast<std::size_t>(processor), bytes(), sets_.data()); }
  bool Has(int processor) {
    return CPU_ISSET_S(static_cast<std::size_t>(processor), bytes(), sets_.data());
  }

 private:
  std::vector<cpu_set_t> sets_;
};

std::optional<double> FirstNumber(std::string_view text) { return TakeNumber<double>(text); }

double Ratio(std::optional<double> quota, std::optional<double> period) {
  return quota && period && *quota > 0 && *period > 0 ? *quota / *period : kNoLimit;
}

// cpu.max is "QUOTA PERIOD" in microseconds, or "max PERIOD".
double LimitV2(const std::filesystem::path& group) {
  const std::string line = ReadFirstLine(group / "cpu.max").value_or("");
  const std::size_t blank = line.find(' ');
  return blank == std::string::npos
             ? kNoLimit
             : Ratio(FirstNumber(line), FirstNumber(std::string_view(line).substr(blank + 1)));
}

// A quota of -1 means no limit.
double LimitV1(const std::filesystem::path& group) {
  return Ratio(FirstNumber(ReadFirstLine(group / "cpu.cfs_quota_us").value_or("")),
               FirstNumber(ReadFirstLine(group / "cpu.cfs_period_us").value_or("")));
}

std::filesystem::path ProcessorFolder(int processor, const std::filesystem::path& root) {
  return root / "sys/devices/system/cpu" / ("cpu" + std::to_string(processor));
}

// Returns the first processor of each group that shares a resource. `file` lists the group of a
// processor; a processor without such a file is a group of its own.
std::vector<int> FirstOfEach(std::span<const int> processors, const std::filesystem::path& root,
                             std::string_view file) {
  std::vector<int> first;
  std::vector<std::string> groups;  // each is the list of its processors, equal for all of them
  for (const int processor : processors) {
    const auto list = ReadFirstLine(ProcessorFolder(processor, root) / file);
    if (list && std::find(groups.begin(), groups.end(), *list) != groups.end()) continue;
    if (list) {
      groups.push_back(*list);
    }
    first.push_back(processor);
  }
  return first;
}

}  // namespace

std::vector<int> AllowedProcessors() {
  Mask mask;
  std::vector<int> allowed;
  if (::sched_getaffinity(0, mask.bytes(), mask.data()) == 0) {
    for (int i = 0; i < kMostProcessors; ++i) {
      if (mask.Has(i)) {
        allowed.push_back(i);
      }
    }
  }
  return allowed.empty() ? std::vector<int>{0} : allowed;
}

std::vector<int> OnePerCore(std::span<const int> allowed, const std::filesystem::path& root) {
  return FirstOfEach(allowed, root, "topology/thread_siblings_list");
}

std::int64_t CacheBytes(std::span<const int> processors, const std::filesystem::path& root) {
  constexpr std::string_view kUnits = "KMG";
  std::int64_t bytes = 0;
  for (const int processor : FirstOfEach(processors, root, "cache/index3/shared_cpu_list")) {
    const std::string text =
        ReadFirstLine(ProcessorFolder(processor, root) / "cache/index3/size").value_or("");
    std::string_view rest = text;
    const std::int64_t number = TakeNumber<std::int64_t>(rest).value_or(0);
    const std::size_t unit = rest.empty() ? kUnits.npos : kUnits.find(rest.front());
    if (number < 0 || number > kMostCacheUnits || unit == kUnits.npos) return 0;
    bytes += number << (10 * (unit + 1));
  }
  return bytes;
}

double ProcessorQuota(const std::filesystem::path& root) {
  double smallest = kNoLimit;
  for (const ControlGroup& group : FindControlGroups("cpu", root)) {
    smallest =
        std::min(smallest, group.version == 2 ? LimitV2(group.folder) : LimitV1(group.folder));
  }
  return smallest;
}

int AvailableCores() {
  const auto cores = static_cast<double>(OnePerCore(AllowedProcessors()).size());
  return static_cast<int>(std::max(1.0, std::floor(std::min(cores, ProcessorQuota()))));
}

bool FillsProcessors(int n_threads) { return n_threads >= std::ssize(AllowedProcessors()); }

bool BindThisThread(int processor) {
  if (processor < 0 || processor >= kMostProcessors) return false;
  Mask mask;
  mask.Add(processor);
  return ::sched_setaffinity(0, mask.bytes(), mask.data()) == 0;
}

}  // namespace fathom
