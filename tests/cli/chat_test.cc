// chat through pipes: a script of lines in, the answers out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kStory = "Tell me a story that begins: There was once a poor miller.";

ProgramRun Chat(const std::string& lines, std::vector<std::string> options = {}) {
  options.insert(options.begin(), {"chat", "--seed", "4", "-n", "12", "--context", "600"});
  return RunProgram(options, {.standard_input = lines});
}

TEST(ChatTest, PipedInputGivesAnswersOnly) {
  const ProgramRun run = Chat(std::string(kStory) + "\n");
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.error, "");
  EXPECT_GT(run.out.size(), 10u);
  EXPECT_EQ(run.out.back(), '\n');
  EXPECT_THAT(run.out, AllOf(Not(HasSubstr("> ")), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(Chat(kStory).out, run.out) << "the last line needs no end";
}

TEST(ChatTest, EmptyInputIsNoError) {
  const ProgramRun run = Chat("");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out + run.error, "");
  EXPECT_EQ(Chat("\n  \n\n").out, "");
}

TEST(ChatTest, TurnsBuildOnEachOther) {
  const std::string first = Chat(std::string(kStory) + "\n").out;
  const std::string both = Chat(std::string(kStory) + "\nGo on.\n").out;
  EXPECT_EQ(both.substr(0, first.size()), first);
  const std::string alone = Chat("Go on.\n").out;
  EXPECT_NE(both.substr(first.size()), alone);
  const std::string reset = Chat(std::string(kStory) + "\n/reset\nGo on.\n").out;
  EXPECT_EQ(reset, first + alone);
}

TEST(ChatTest, SystemPromptChangesTheAnswer) {
  const std::string plain = Chat(std::string(kStory) + "\n").out;
  const std::string option =
      Chat(std::string(kStory) + "\n", {"--system", "You write of dragons."}).out;
  const std::string command =
      Chat("/system You write of dragons.\n" + std::string(kStory) + "\n").out;
  EXPECT_NE(plain, option);
  EXPECT_EQ(option, command);
  EXPECT_EQ(Chat("/system You write of dragons.\n/system\n" + std::string(kStory) + "\n").out,
            plain);
}

// Whole blocks of 128 tokens, those of the first question and its answer.
TEST(ChatTest, StatsTellHowMuchWasCached) {
  std::string question;
  for (int i = 0; i < 12; ++i) {
    question += kStory;
  }
  const ProgramRun run = Chat(question + "\n/stats\nGo on.\n/stats\n");
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("messages 2; context "), HasSubstr(" of 600 tokens"),
                    HasSubstr("last answer: load "), HasSubstr("; 0 prompt tokens cached; ")));
  const std::string second = run.out.substr(run.out.find("messages 4; context "));
  const std::size_t found = second.find(" prompt tokens cached; ");
  ASSERT_NE(found, std::string::npos) << run.out;
  const int n_cached = std::stoi(second.substr(second.rfind(' ', found - 1)));
  EXPECT_GE(n_cached, 128);
  EXPECT_EQ(n_cached % 128, 0);
  const ProgramRun without =
      Chat(question + "\n/stats\nGo on.\n/stats\n", {"--prefix-cache", "off"});
  EXPECT_THAT(without.out.substr(without.out.find("messages 4; context ")),
              HasSubstr("; 0 prompt tokens cached; "));
}

TEST(ChatTest, SavedConversationsGoOnWhereTheyStood) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "chat.json";
  const std::string first = Chat(std::string(kStory) + "\n").out;
  const std::string saved = Chat(std::string(kStory) + "\n/save " + file + "\nGo on.\n").out;
  const json chat = json::parse(ReadFile(file));
  ASSERT_EQ(chat["messages"].size(), 2u);
  EXPECT_EQ(chat["think"], "off");
  EXPECT_EQ(chat["messages"][0]["content"], kStory);
  EXPECT_EQ(chat["messages"][1]["role"], "assistant");
  const std::string loaded = Chat("/load " + file + "\nGo on.\n").out;
  EXPECT_EQ(first + loaded, saved);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1)
      << "no temporary file stays";
}

TEST(ChatTest, RetryAnswersTheLastMessageAgain) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "chat.json";
  const std::string once = Chat(std::string(kStory) + "\n").out;
  const ProgramRun twice = Chat(std::string(kStory) + "\n/retry\n/save " + file + "\n");
  EXPECT_EQ(twice.out, once + once) << "the same seed";
  const json chat = json::parse(ReadFile(file));
  ASSERT_EQ(chat["messages"].size(), 2u);
  EXPECT_EQ(chat["messages"][0]["content"], kStory);
  ExpectRefusal(Chat("/retry\n"), 1, "/retry: expected an earlier message, found none");
}

TEST(ChatTest, CommandsThatFailEndAScript) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "chat.json";
  ExpectRefusal(Chat("/dance\n"), 1, "/dance: unknown command; there are /help /reset");
  ExpectRefusal(Chat("/think hard\n"), 1, "expected off, high or max, found \"hard\"");
  ExpectRefusal(Chat("/save\n"), 1, "/save: expected the name of a file");
  ExpectRefusal(Chat("/save /no/such/directory/x\n"), 1, "/no/such/directory/x: cannot write");
  ExpectRefusal(Chat("/load " + file + "\n"), 1, "cannot open");
  const auto load = [&](const std::string& content) {
    std::ofstream(file) << content;
    return Chat("/load " + file + "\n");
  };
  ExpectRefusal(load("{"), 1, "chat.json: ");
  ExpectRefusal(load("[]"), 1, "expected a JSON object");
  ExpectRefusal(load(R"({"messages": 5})"), 1, "messages");
  ExpectRefusal(load(R"({"messages": [{"role": "king", "content": "x"}]})"), 1, "messages[0].role");
  ExpectRefusal(load(R"({"messages": [{"role": "user", "content": "x"},
                                       {"role": "system", "content": "y"}]})"),
                1, "messages[1].role: expected user or assistant, found system");
  ExpectRefusal(load(R"({"think": "hard", "messages": []})"), 1,
                "think: expected off, high or max");
}

TEST(ChatTest, HelpAndQuit) {
  const ProgramRun run = Chat("/help\n/quit\n" + std::string(kStory) + "\n");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("/load FILE"));
  EXPECT_THAT(run.out, ::testing::EndsWith("write the slash twice.\n")) << "nothing after /quit";
}

TEST(ChatTest, SlashesMayBeSaid) {
  const ProgramRun run = Chat("//help me\n");
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, Not(HasSubstr("/load FILE")));
}

TEST(ChatTest, ConversationsThatDoNotFitAreRefused) {
  std::string endless;
  for (int i = 0; i < 700; ++i) {
    endless += "word ";
  }
  ExpectRefusal(Chat(endless + "\n"), 1, "and the context 600: nothing is left for an answer");
}

TEST(ChatTest, RefusesWhatIsNotUtf8) { ExpectRefusal(Chat("a\xFF\n"), 1, "expected UTF-8"); }

TEST(ChatTest, ThinkingIsNotPartOfAPipedAnswer) {
  // This model was not trained to think: its tokens are reasoning until it says otherwise.
  const ProgramRun run = Chat("/think high\n" + std::string(kStory) + "\n/stats\n");
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, HasSubstr("thinking high"));
  EXPECT_THAT(run.out, HasSubstr("generated 12 tokens"));
}

}  // namespace
}  // namespace fathom::testing
