#include "base/module_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace fathom {
namespace {

// A module that is there, and one of another build: tests/cli/launch_test.cc.
TEST(ModuleFile, SaysWhatABuildWithTheModuleNeeds) {
  const Result<void*> opened =
      OpenModule({.name = "fathom_no.so", .function = "f", .provides = "NO", .needs = "libno-dev"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(opened.error().message, "this build has no NO: there is no " +
                                        (program.parent_path() / "fathom_no.so").string() +
                                        " (build with libno-dev installed)");
}

}  // namespace
}  // namespace fathom
