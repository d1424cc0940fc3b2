// FairyCopy: the embedded model with files that a test may break.
#pragma once

#include <filesystem>
#include <string>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {

inline void LinkFiles(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    std::filesystem::create_symlink(entry.path(), to / entry.path().filename());
  }
}

// A copy of the embedded model whose files are links, to break one of them.
class FairyCopy {
 public:
  FairyCopy() { LinkFiles(ProjectPath("models/fairy"), path()); }
  std::filesystem::path path() const { return directory_.path(); }
  // A file that may be changed without changing the original.
  std::filesystem::path Own(const std::string& name) const {
    const std::filesystem::path file = path() / name;
    const std::string bytes = ReadFile(file);
    std::filesystem::remove(file);
    WriteFile(file, bytes);
    return file;
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace fathom::testing
