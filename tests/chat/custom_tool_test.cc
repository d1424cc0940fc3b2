#include "chat/custom_tool.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "json/json_writer.h"

namespace fathom::chat {
namespace {

TEST(CustomInput, IsTheOneParameter) {
  EXPECT_EQ(CustomInput(R"({"input": "a\u00e9\n"})"), "aé\n");
  EXPECT_EQ(CustomInput(R"({"patch": "p", "b": "q"})"), "p") << "by another name";
  EXPECT_EQ(CustomInput(R"({"a": "p", "input": {"b": 1}})"), R"({"b": 1})") << "looked like JSON";
  EXPECT_EQ(CustomInput("{}"), "");
}

// Returns the stream's output for pieces of `size` bytes.
std::string ReadInPieces(std::string_view arguments, std::size_t size) {
  CustomInputStream stream;
  std::string told;
  for (; !arguments.empty(); arguments.remove_prefix(std::min(size, arguments.size()))) {
    told += stream.Feed(arguments.substr(0, size));
  }
  return told;
}

TEST(CustomInputStream, TellsAllOfAStringHoweverItIsCut) {
  EXPECT_TRUE(rc::check([](const std::string& bytes) {
    std::string text;
    for (const char c : bytes) text += static_cast<char>(c & 0x7f);  // UTF-8
    const std::string arguments = "{\"input\": " + PythonJsonString(text) + ", \"b\": 1}";
    for (const std::size_t size : {1, 2, 7}) {
      RC_ASSERT(ReadInPieces(arguments, size) == text);
    }
    RC_ASSERT(CustomInput(arguments) == text);
  }));
}

TEST(CustomInputStream, SaysNothingThatIsNotCertain) {
  for (const char* arguments : {R"({"patch": "p", "input": "q"})", R"({"input": {"b": 1}})",
                                R"({"input": 5})", R"({"input":"no blank"})", "{}", ""}) {
    EXPECT_EQ(ReadInPieces(arguments, 1), "") << arguments;
  }
  // Two values, of which the last counts, can only come as a whole.
  EXPECT_EQ(ReadInPieces(R"({"input": "a", "input": "b"})", 100), "");
}

}  // namespace
}  // namespace fathom::chat
