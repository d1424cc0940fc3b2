#include "chat/offered_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/encoder.h"
#include "chat/shown_request.h"

namespace fathom::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ToolSpec Tool(const std::string& name, bool is_deferred = false) {
  return {.name = name,
          .function_json = R"({"name": ")" + name + R"(", "strict": true})",
          .is_deferred = is_deferred};
}

std::vector<std::string> Available(const OfferedTools& tools) {
  std::vector<std::string> names;
  for (const ToolSpec& tool : tools.tools()) {
    if (tool.is_available) names.push_back(tool.name);
  }
  return names;
}

TEST(ToolDefinition, HasThreeFields) {
  EXPECT_EQ(*ToolDefinition(R"({"parameters": {"b":1, "a": 1E2}, "x": 1, "name": "f"})"),
            R"({"name": "f", "description": "", "parameters": {"b": 1, "a": 100.0}})");
  EXPECT_EQ(*ToolDefinition(R"({"name": "f", "description": null, "parameters": null})"),
            R"({"name": "f", "description": "", "parameters": {}})");
  EXPECT_FALSE(ToolDefinition("{"));
}

TEST(OfferedTools, AReferenceMakesADeferredToolAvailable) {
  OfferedTools tools({Tool("f"), Tool("g", true), Tool("h", true)});
  EXPECT_THAT(Available(tools), ElementsAre("f"));
  EXPECT_EQ(tools.Refer("g"), R"({"name": "g", "description": "", "parameters": {}})");
  EXPECT_THAT(Available(tools), ElementsAre("f", "g"));
  EXPECT_EQ(tools.Refer("g"), "g") << "the definition stands above";
  EXPECT_EQ(tools.Refer("f"), "f") << "the head of the prompt shows it";
  EXPECT_EQ(tools.Refer("unknown"), "unknown");
  EXPECT_THAT(Available(tools), ElementsAre("f", "g"));
}

TEST(OfferedTools, AddedAndRemoved) {
  OfferedTools tools({Tool("f")});
  ToolSpec other = Tool("f");
  other.function_json = R"({"name": "f", "description": "new"})";
  tools.Remove("f");
  EXPECT_THAT(Available(tools), IsEmpty());
  EXPECT_EQ(tools.Add(Tool("f")), "f") << "given back: its definition is at the head";
  EXPECT_THAT(Available(tools), ElementsAre("f"));
  EXPECT_THAT(tools.Add(other), HasSubstr("new"));
  ASSERT_EQ(tools.tools().size(), 2u);
  EXPECT_FALSE(tools.tools()[0].is_available) << "replaced";
  EXPECT_TRUE(tools.tools()[1].is_deferred) << "the head of the prompt stays as it is";
  EXPECT_TRUE(tools.tools()[1].is_available);
  EXPECT_EQ(tools.Refer("f"), "f");
  tools.Remove("f");
  tools.Remove("unknown");
  EXPECT_THAT(Available(tools), IsEmpty());
}

TEST(OfferedTools, DeferredToolsAreNotInThePrompt) {
  const ChatRequest plain = {.messages = {{.content = "Hi"}}, .tools = {Tool("f"), Tool("g")}};
  ChatRequest deferred = plain;
  deferred.tools.insert(deferred.tools.begin(), Tool("h", true));
  deferred.tools.push_back(Tool("i", true));
  const std::string text = EncodeChat(plain, {}, PreviewProfile())->Text();
  EXPECT_EQ(EncodeChat(deferred, {}, PreviewProfile())->Text(), text);
  ChatRequest none = plain;
  none.tools = {Tool("h", true)};
  EXPECT_THAT(EncodeChat(none, {}, PreviewProfile())->Text(), Not(HasSubstr("Tools")));
}

}  // namespace
}  // namespace fathom::chat
