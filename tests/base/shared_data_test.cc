// The golden files that ship with the project are those of the golden data.
#include "tests/testing/shared_data.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace fathom::testing {
namespace {

TEST(SharedData, ShippedFilesAreUpToDate) {
  const std::filesystem::path shipped = ProjectPath("tests/shared");
  int n_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped)) {
    if (!entry.is_regular_file() || entry.path().filename() == "README.md") continue;
    ++n_files;
    const auto original =
        SharedData(std::filesystem::relative(entry.path(), shipped).generic_string());
    ASSERT_TRUE(original) << entry.path();
    EXPECT_EQ(ReadFile(entry.path()), ReadFile(*original)) << entry.path();
  }
  EXPECT_EQ(n_files, 19);
}

}  // namespace
}  // namespace fathom::testing
