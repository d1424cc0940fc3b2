// chat on a pseudo-terminal: what only a person at a keyboard sees.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;

// The program on a terminal of its own, with somebody typing.
class Terminal {
 public:
  // `state`: the folder in which the program has its history.
  Terminal(std::vector<std::string> arguments, const std::filesystem::path& state) {
    arguments.insert(arguments.begin(), ProgramPath());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    winsize size = {.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    process_ = ::forkpty(&descriptor_, nullptr, nullptr, &size);
    if (process_ == 0) {
      ::setenv("TERM", "xterm", 1);
      ::setenv("XDG_STATE_HOME", state.c_str(), 1);
      ::unsetenv("NO_COLOR");
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    // Nobody reads what is typed after the program has ended.
    ::fcntl(descriptor_, F_SETFL, O_NONBLOCK);
  }

  ~Terminal() {
    if (!ended_) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    ::close(descriptor_);
  }

  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void Type(const std::string& keys) {
    EXPECT_EQ(::write(descriptor_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Reads until the screen has shown `text` after what earlier calls waited for.
  bool WaitFor(const std::string& text, int seconds = 30) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < end) {
      const std::size_t found = screen_.find(text, seen_);
      if (found != std::string::npos) {
        seen_ = found + text.size();
        return true;
      }
      ReadSome(100);
    }
    ADD_FAILURE() << "waited for \"" << text << "\" and saw \"" << screen_.substr(seen_) << "\"";
    return false;
  }

  // Returns the screen's text from here to `text`.
  std::string ReadUntil(const std::string& text) {
    const std::size_t begin = seen_;
    return WaitFor(text) ? screen_.substr(begin, seen_ - text.size() - begin) : "";
  }

  // The exit code; -1 if the program does not end. `keys` are typed until it does: libedit shows
  // its prompt before it takes over the terminal, and a Ctrl-D between the two is nobody's.
  int WaitForEnd(const std::string& keys = "") {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      int status = 0;
      if (::waitpid(process_, &status, WNOHANG) == process_) {
        ended_ = true;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      ReadSome(20);
      if (!keys.empty()) {
        static_cast<void>(!::write(descriptor_, keys.data(), keys.size()));
      }
    }
    return -1;
  }

 private:
  void ReadSome(int milliseconds) {
    pollfd watched = {.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (::poll(&watched, 1, milliseconds) <= 0) {
      return;
    }
    char piece[4096];
    const ssize_t n_bytes = ::read(descriptor_, piece, sizeof(piece));
    if (n_bytes <= 0) {
      return;
    }
    screen_.append(piece, static_cast<std::size_t>(n_bytes));
  }

  int descriptor_ = -1;
  pid_t process_ = -1;
  bool ended_ = false;
  std::string screen_;
  std::size_t seen_ = 0;
};

constexpr const char* kControlC = "\x03";
constexpr const char* kControlD = "\x04";
constexpr const char* kArrowUp = "\x1b[A";

class ChatTerminalTest : public ::testing::Test {
 protected:
  Terminal Start(const std::vector<std::string>& arguments) const {
    return Terminal(arguments, directory_.path() / "state");
  }

  // Saves the conversation, ends the program, and returns the messages.
  nlohmann::json SaveAndQuit(Terminal& terminal) const {
    const std::filesystem::path file = directory_.path() / "chat.json";
    terminal.Type("/save " + file.string() + "\r");
    EXPECT_TRUE(terminal.WaitFor("saved to "));
    terminal.Type("/quit\r");
    EXPECT_EQ(terminal.WaitForEnd(), 0);
    return nlohmann::json::parse(ReadFile(file))["messages"];
  }

  const TemporaryDirectory directory_;
};

TEST_F(ChatTerminalTest, ControlCStopsTheAnswerAndNotTheProgram) {
  Terminal terminal = Start({"chat", "--seed", "1", "--ignore-eos", "--context", "60000"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("Tell me a story.\r");
  ASSERT_TRUE(terminal.WaitFor("\n"));
  ASSERT_TRUE(terminal.WaitFor(" the "));
  terminal.Type(kControlC);
  ASSERT_TRUE(terminal.WaitFor("(stopped)"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("/stats\r");
  ASSERT_TRUE(terminal.WaitFor("messages 2; context "));
  terminal.Type("/quit\r");
  EXPECT_EQ(terminal.WaitForEnd(), 0);
}

TEST_F(ChatTerminalTest, ControlCAtThePromptDropsTheLine) {
  Terminal terminal = Start({"chat", "-n", "4"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("half a thought");
  ASSERT_TRUE(terminal.WaitFor("thought"));
  terminal.Type(kControlC);
  ASSERT_TRUE(terminal.WaitFor("/quit or Ctrl-D"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("/stats\r");
  ASSERT_TRUE(terminal.WaitFor("messages 0;"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  EXPECT_EQ(terminal.WaitForEnd(kControlD), 0);
}

TEST_F(ChatTerminalTest, LinesCanBeEditedAndRecalled) {
  Terminal terminal = Start({"chat", "-n", "4"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("/statx\x7fs\r");  // backspace
  ASSERT_TRUE(terminal.WaitFor("messages 0;"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("\x1b[A\r");  // arrow up
  ASSERT_TRUE(terminal.WaitFor("messages 0;"));
  terminal.Type("/quit\r");
  EXPECT_EQ(terminal.WaitForEnd(), 0);
}

TEST_F(ChatTerminalTest, ErrorsDoNotEndTheChat) {
  Terminal terminal = Start({"chat", "-n", "4"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("/dance\r");
  ASSERT_TRUE(terminal.WaitFor("/dance: unknown command"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("caf\xC3\xA9 \xE2\x82\xAC\r");  // characters of several bytes
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("/stats\r");
  ASSERT_TRUE(terminal.WaitFor("messages 2;"));
  terminal.Type("/quit\r");
  EXPECT_EQ(terminal.WaitForEnd(), 0);
}

TEST_F(ChatTerminalTest, ReasoningIsDimmed) {
  Terminal terminal = Start({"chat", "-n", "6", "--think", "high", "--seed", "2"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("Hello\r");
  ASSERT_TRUE(terminal.WaitFor("\x1b[2m"));
  ASSERT_TRUE(terminal.WaitFor("\x1b[22m"));
  terminal.Type("/quit\r");
  EXPECT_EQ(terminal.WaitForEnd(), 0);
}

TEST_F(ChatTerminalTest, APastedTextIsOneMessage) {
  Terminal terminal = Start({"chat", "-n", "4"});
  ASSERT_TRUE(terminal.WaitFor("\x1b[?2004h"));  // asks the terminal to mark what is pasted
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("See: \x1b[200~first line\rsecond\tline\r\nthird\n4\x1b[201~!\r");
  ASSERT_TRUE(terminal.WaitFor("\x1b[?2004l"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  const nlohmann::json messages = SaveAndQuit(terminal);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "See: first line\nsecond\tline\nthird\n4!");
}

TEST_F(ChatTerminalTest, AMessageMayHaveLines) {
  Terminal terminal = Start({"chat", "-n", "4"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("one\x1b\rtwo\\\rthree\r");  // Alt-Enter, a backslash
  ASSERT_TRUE(terminal.WaitFor("\x1b[?2004l"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  const nlohmann::json messages = SaveAndQuit(terminal);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "one\ntwo\nthree");
}

TEST_F(ChatTerminalTest, TheHistoryOutlivesTheProgram) {
  {
    Terminal terminal = Start({"chat", "-n", "4"});
    ASSERT_TRUE(terminal.WaitFor("> "));
    terminal.Type("one\x1b\rtwo\r");
    ASSERT_TRUE(terminal.WaitFor("\x1b[?2004l"));
    ASSERT_TRUE(terminal.WaitFor("> "));
    terminal.Type("/quit\r");
    EXPECT_EQ(terminal.WaitForEnd(), 0);
  }
  const std::filesystem::path file = directory_.path() / "state/fathom/chat_history";
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Terminal terminal = Start({"chat", "-n", "4"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type(std::string(kArrowUp) + kArrowUp + "\r");
  ASSERT_TRUE(terminal.WaitFor("\x1b[?2004l"));
  ASSERT_TRUE(terminal.WaitFor("> "));
  const nlohmann::json messages = SaveAndQuit(terminal);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "one\ntwo");
}

TEST_F(ChatTerminalTest, NoHistoryIsWrittenIfNoneIsWanted) {
  Terminal terminal = Start({"chat", "-n", "4", "--history", "off"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("/stats\r");
  ASSERT_TRUE(terminal.WaitFor("messages 0;"));
  terminal.Type("/quit\r");
  EXPECT_EQ(terminal.WaitForEnd(), 0);
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "state"));
}

TEST_F(ChatTerminalTest, AnswersBreakBetweenWords) {
  Terminal terminal = Start({"chat", "-n", "120", "--ignore-eos", "--seed", "1"});
  ASSERT_TRUE(terminal.WaitFor("> "));
  terminal.Type("Tell me a story.\r");
  ASSERT_TRUE(terminal.WaitFor("\x1b[?2004l"));
  const std::string shown = terminal.ReadUntil("\x1b[?2004h");
  const nlohmann::json messages = SaveAndQuit(terminal);
  std::string text = messages[1]["content"];
  std::string answer;
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    EXPECT_LE(line.size(), 100u) << line;
    answer += line + ' ';
  }
  std::ranges::replace(text, '\n', ' ');
  EXPECT_THAT(answer, HasSubstr(text));
  EXPECT_GT(text.size(), 200u);
}

}  // namespace
}  // namespace fathom::testing
