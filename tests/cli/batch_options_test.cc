// The command line of batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/options/command_options.h"
#include "tests/cli/program.h"

namespace fathom::cli {
namespace {

// Returns the parser's error about a command line; "" if there is none.
std::string Parse(const std::string& arguments, BatchCommand& command) {
  Parser parser("", "", "");
  Command root = parser.root();
  AddCommand(root, command);
  return parser.Parse(testing::SplitAtBlanks(arguments)).error;
}

TEST(BatchOptionsTest, Defaults) {
  BatchCommand command;
  EXPECT_EQ(Parse("batch in.jsonl out.jsonl", command), "");
  EXPECT_EQ(command.input, "in.jsonl");
  EXPECT_EQ(command.output, "out.jsonl");
  EXPECT_EQ(command.engine.max_sequences, 8);
  EXPECT_EQ(command.thinking, std::nullopt) << "as the checkpoint does";
  EXPECT_TRUE(command.sampling.fields.empty());
}

TEST(BatchOptionsTest, AllOfThem) {
  BatchCommand command;
  EXPECT_EQ(
      Parse("batch - - --model m --max-sequences 32 --thinking off --profile v4-0731 --context "
            "100 --temperature 0.5 --max-tokens 7",
            command),
      "");
  EXPECT_EQ(command.input, "-");
  EXPECT_EQ(command.output, "-");
  EXPECT_EQ(command.run.model, "m");
  EXPECT_EQ(command.engine.max_sequences, 32);
  EXPECT_EQ(command.thinking, false);
  EXPECT_EQ(command.profile, "v4-0731");
  EXPECT_EQ(command.run.n_context, 100);
  EXPECT_EQ(command.sampling.fields["temperature"], 0.5);
  EXPECT_EQ(command.sampling.max_tokens, 7);
}

TEST(BatchOptionsTest, WrongOnesAreRefused) {
  BatchCommand command;
  EXPECT_THAT(Parse("batch in.jsonl", command), ::testing::HasSubstr("output"));
  EXPECT_THAT(Parse("batch a b --max-sequences 0", command),
              ::testing::HasSubstr("from 1 to 4096"));
  EXPECT_THAT(Parse("batch a b --thinking maybe", command), ::testing::HasSubstr("on off"));
}

}  // namespace
}  // namespace fathom::cli
