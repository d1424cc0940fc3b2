#include "tests/cli/program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) {
    pointers.push_back(string.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::vector<std::string>& more) {
  std::vector<std::string> environment = more;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.emplace_back(*variable);
  }
  return environment;
}

}  // namespace

std::filesystem::path ProgramPath() { return FATHOM_BINARY; }

ProgramRun RunProgram(const std::vector<std::string>& arguments, const ProgramInput& input) {
  const TemporaryDirectory directory;
  const std::string in = directory.path() / "in";
  const std::string out = input.output.empty() ? directory.path() / "out" : input.output;
  const std::string error = directory.path() / "error";
  std::ofstream(in, std::ios::binary) << input.standard_input;

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, in.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&files, 2, error.c_str(), O_WRONLY | O_CREAT, 0600);

  const std::string program = input.program.empty() ? ProgramPath() : input.program;
  std::vector<std::string> strings = {program};
  strings.insert(strings.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = Environment(input.environment);
  pid_t process = 0;
  const int failed = ::posix_spawn(&process, program.c_str(), &files, nullptr,
                                   Pointers(strings).data(), Pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&files);
  EXPECT_EQ(failed, 0) << program;
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);

  ProgramRun run;
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.out = input.output.empty() ? ReadFile(out) : "";
  run.error = ReadFile(error);
  return run;
}

void ExpectRefusal(const ProgramRun& run, int exit_code, std::string_view part_of_message) {
  EXPECT_EQ(run.exit_code, exit_code) << run.error;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.error, ::testing::StartsWith("fathom: error: "));
  EXPECT_THAT(run.error, ::testing::HasSubstr(std::string(part_of_message)));
  EXPECT_THAT(run.error, ::testing::EndsWith("\n"));
}

std::vector<std::string> SplitAtBlanks(const std::string& arguments) {
  std::istringstream stream(arguments);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

nlohmann::json ParseOutput(const ProgramRun& run) {
  nlohmann::json json = nlohmann::json::parse(run.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << "exit code " << run.exit_code << "\n"
                                    << run.out << "\n"
                                    << run.error;
  return json;
}

}  // namespace fathom::testing
