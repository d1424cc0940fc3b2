#include "tests/cli/processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace fathom::testing {

std::vector<pid_t> FindChildren(pid_t parent) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/children", parent, parent));
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) {
    children.push_back(child);
  }
  return children;
}

bool IsGoneSoon(pid_t process) {
  for (int i = 0; i < 300; ++i) {
    std::ifstream file(fmt::format("/proc/{}/stat", process));
    std::string number;
    std::string name;
    char state = 0;
    if (!(file >> number >> name >> state) || state == 'Z') {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool MapsSoon(pid_t process, std::string_view part_of_path) {
  for (int i = 0; i < 3000; ++i) {
    std::ostringstream maps;
    maps << std::ifstream(fmt::format("/proc/{}/maps", process)).rdbuf();
    if (maps.view().find(part_of_path) != std::string_view::npos) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::int64_t AddressSpace(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/statm", process));
  std::int64_t n_pages = 0;
  file >> n_pages;
  return n_pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace fathom::testing
