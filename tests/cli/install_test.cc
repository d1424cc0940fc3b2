// The binary after `cmake --install`: it finds the embedded model beside itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

TEST(InstallTest, FindsTheInstalledModel) {
  const TemporaryDirectory directory;
  const std::filesystem::path bin = directory.path() / "bin";
  const std::filesystem::path share = directory.path() / "share/fathom/models";
  std::filesystem::create_directories(bin);
  std::filesystem::create_directories(share);
  // Does what the install rules do (cmake/install.cmake, src/cli/CMakeLists.txt), without
  // installing.
  std::filesystem::copy_file(ProgramPath(), bin / "fathom");
  std::filesystem::create_directory_symlink(ProjectPath("models/fairy"), share / "fairy");
  const ProgramRun run =
      RunProgram({"generate", "Once", "-n", "2", "--json"}, {.program = bin / "fathom"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(ParseOutput(run)["model"].get<std::string>(),
              ::testing::HasSubstr("share/fathom/models/fairy"));
}

TEST(InstallTest, WithoutAModelItSaysWhereItLooked) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "bin");
  std::filesystem::copy_file(ProgramPath(), directory.path() / "bin/fathom");
  ExpectRefusal(RunProgram({"generate", "Once"}, {.program = directory.path() / "bin/fathom"}), 1,
                "share/fathom/models/fairy");
}

}  // namespace
}  // namespace fathom::testing
