#include "tests/testing/shared_data.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace fathom::testing {

namespace {

// The folder of the build, unless a variable of the environment names another one: programs of
// tests also run where they were not built.
std::filesystem::path Folder(const char* variable, const char* of_build) {
  const char* const other = std::getenv(variable);
  return other == nullptr ? of_build : other;
}

}  // namespace

std::optional<std::filesystem::path> SharedData(std::string_view relative) {
  const std::filesystem::path shared = Folder("FATHOM_SHARED_DIR", FATHOM_SHARED_DIR) / relative;
  if (std::filesystem::exists(shared)) {
    return shared;
  }
  // A folder here may hold a part of the folder in the golden data only.
  const std::filesystem::path shipped = ProjectPath("tests/shared") / relative;
  if (std::filesystem::is_regular_file(shipped)) {
    return shipped;
  }
  const char* ci = std::getenv("CI");
  if (ci != nullptr && std::string_view(ci) == "true") {
    ADD_FAILURE() << shared << ": expected golden data where CI=true, found none";
  }
  return std::nullopt;
}

std::filesystem::path ProjectPath(std::string_view relative) {
  return Folder("FATHOM_SOURCE_DIR", FATHOM_SOURCE_DIR) / relative;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << "cannot read " << path;
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "fathom_test_XXXXXX").string();
  Check(::mkdtemp(pattern.data()) != nullptr, "cannot make a temporary directory");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace fathom::testing
