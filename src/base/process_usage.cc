#include "base/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/parse_text.h"

namespace fathom {
namespace {

// Returns the time when the machine was started, in seconds since 1970.
double BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::string_view text = line;
    if (TakePrefix(text, "btime ")) return ParseNumber<double>(text).value_or(0);
  }
  return 0;
}

std::int64_t CountDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  return error ? 0 : std::distance(begin(all), end(all));
}

}  // namespace

ProcessUsage UsageOfThisProcess() {
  ProcessUsage usage = {.open_descriptors = CountDescriptors()};
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    usage.max_descriptors = static_cast<std::int64_t>(limit.rlim_cur);
  }
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field is the name of the program in parentheses, which may contain blanks.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return usage;
  std::istringstream fields(line.substr(name_end + 1));
  const std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
  // Counted from 1, as proc(5) does.
  const auto field = [&](std::size_t number) {
    constexpr std::size_t kFirst = 3;
    return number - kFirst < words.size() ? ParseNumber<double>(words[number - kFirst]).value_or(0)
                                          : 0;
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  usage.cpu_seconds = (field(14) + field(15)) / ticks;
  usage.start_seconds = BootSeconds() + field(22) / ticks;
  usage.virtual_bytes = static_cast<std::int64_t>(field(23));
  usage.resident_bytes = static_cast<std::int64_t>(field(24)) * ::sysconf(_SC_PAGESIZE);
  return usage;
}

}  // namespace fathom
