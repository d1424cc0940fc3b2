// Runs the built binary as a user does.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::testing {

struct ProgramRun {
  int exit_code = -1;  // -1: ended by a signal, which no input may cause
  std::string out;
  std::string error;
};

struct ProgramInput {
  std::string standard_input{};
  std::vector<std::string> environment{};  // NAME=value, beside the test's own
  std::filesystem::path program{};         // empty: the one of this build
  std::filesystem::path output{};          // a file in place of the captured standard output
};

// Arguments without the name of the program. Waits for its end.
ProgramRun RunProgram(const std::vector<std::string>& arguments, const ProgramInput& input = {});

std::filesystem::path ProgramPath();

// The error is one message and nothing was printed: what every refusal looks like.
void ExpectRefusal(const ProgramRun& run, int exit_code, std::string_view part_of_message);

// The words of a command line without quotes.
std::vector<std::string> SplitAtBlanks(const std::string& arguments);

// Parses the output; fails the calling test if it is not JSON.
nlohmann::json ParseOutput(const ProgramRun& run);

}  // namespace fathom::testing
