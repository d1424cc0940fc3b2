// Where tests find their data.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace fathom::testing {

// A path inside the golden data of the official code; for a small file its copy in tests/shared
// where the golden data is absent; else nullopt. A test that gets nullopt is skipped with a
// message, and fails where the environment has CI=true:
//
//   const auto path = SharedData("oracle/flash-mini");
//   if (!path) GTEST_SKIP() << kNoSharedData;
std::optional<std::filesystem::path> SharedData(std::string_view relative);
inline constexpr std::string_view kNoSharedData =
    "golden data not present: set FATHOM_SHARED_DIR when configuring";

// A path inside the project (embedded model, fixtures).
std::filesystem::path ProjectPath(std::string_view relative);

// The bytes of a file; fails the calling test and returns "" if it cannot be read.
std::string ReadFile(const std::filesystem::path& path);

// A fresh empty directory, removed with everything in it at the end of the scope.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace fathom::testing
