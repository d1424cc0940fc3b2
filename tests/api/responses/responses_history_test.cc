// Histories of agents that speak the Responses API: whatever stands in them, the session goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/responses/responses_events.h"
#include "tests/api/responses/responses_fixture.h"

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Json;
using ::testing::Not;
using testing::ReadEvents;

class ResponsesHistoryTest : public testing::ResponsesTest {
 protected:
  ApiCall WithItems(const std::string& items, const std::string& fields = "") const {
    return Prepare(R"({"reasoning": {"effort": "none"}, "input": [)" + items + "]" + fields + "}");
  }
  std::string Prompt(const std::string& items, const std::string& fields = "") const {
    return PromptFrom(WithItems(items, fields));
  }
  static std::vector<std::string> Callable(const ApiCall& call) {
    std::vector<std::string> names;
    for (const ToolSchema& tool :
         testing::SpecFrom(call.requests.at(0).sampling.constraint).tools.tools) {
      names.push_back(tool.name);
    }
    return names;
  }
};

TEST_F(ResponsesHistoryTest, AMessageOfAnotherAgentIsAUsersTurn) {
  EXPECT_THAT(Prompt(R"({"type": "agent_message", "id": "amsg_0", "author": "/lead",
      "recipient": "/lead/child", "content": [
          {"type": "input_text", "text": "You are the child."},
          {"type": "encrypted_content", "encrypted_content": "List the files."}]})"),
              HasSubstr("<｜User｜>You are the child.\n\nList the files.<｜Assistant｜>"));
}

TEST_F(ResponsesHistoryTest, OtherItemsAreLeftOut) {
  const std::string user = R"({"role": "user", "content": "Hi"})";
  for (const char* item :
       {R"({"type": "compaction_trigger"})", R"({"type": "song", "notes": [1]})",
        R"({"type": "context_compaction", "encrypted_content": null})",
        R"({"type": "compaction", "encrypted_content": "gAAAAABo"})",
        R"({"type": "web_search_call", "id": "ws"})", R"({"type": "additional_tools"})"}) {
    EXPECT_EQ(Prompt(user + ", " + item), Prompt(user)) << item;
  }
  EXPECT_THAT(Prompt(R"({"type": "compaction", "encrypted_content": "We said so."}, )" + user),
              HasSubstr("<｜User｜>We said so.\n\nHi<｜Assistant｜>"));
}

TEST_F(ResponsesHistoryTest, EmptyNamesAndIdsAndOddActions) {
  EXPECT_THAT(Prompt(R"({"type": "function_call", "call_id": "", "name": "", "arguments": "{}"},
                        {"type": "function_call_output", "call_id": "", "output": "x"})"),
              HasSubstr("<｜DSML｜invoke name=\"\">"));
  for (const char* action : {"null", "5", R"("ls")", "[]"}) {
    const std::string item =
        R"({"type": "local_shell_call", "call_id": "c", "action": )" + std::string(action) + "}";
    EXPECT_THAT(Prompt(item), HasSubstr("<｜DSML｜invoke name=\"local_shell\">")) << action;
  }
  EXPECT_THAT(Prompt(R"({"role": "user", "content": "Hi"},
                        {"type": "function_call_output", "call_id": "c9", "output": "late"})"),
              HasSubstr("<tool_result>late</tool_result>"))
      << "of no call";
}

TEST_F(ResponsesHistoryTest, ImagesOfEarlierTurns) {
  EXPECT_THAT(Prompt(R"({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
                        {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"})"),
              HasSubstr("<｜User｜>[Unsupported Image]<｜Assistant｜>"));
  EXPECT_THAT(Prompt(R"({"role": "user", "content": [
                            {"type": "input_file", "file_data": "AA==", "filename": "x.pdf"},
                            {"type": "input_text", "text": "t"},
                            {"type": "input_audio", "input_audio": {"data": "AA=="}}]},
                        {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"})"),
              HasSubstr("<｜User｜>[Unsupported Document]\n\nt\n\n[Unsupported Audio]"
                        "<｜Assistant｜>"));
}

constexpr const char* kSearchTools = R"(, "tools": [
    {"type": "tool_search", "execution": "client", "description": "Finds tools.",
     "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
    {"type": "function", "name": "late", "defer_loading": true}])";
constexpr const char* kSearched = R"({"role": "user", "content": "Hi"},
    {"type": "tool_search_call", "call_id": "s", "execution": "client",
     "arguments": {"query": "q"}},
    {"type": "tool_search_output", "call_id": "s", "tools": [
        {"type": "function", "name": "found", "parameters": {"type": "object"}},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "g"}]}]})";

TEST_F(ResponsesHistoryTest, ASearchOfTheClientCanBeDemanded) {
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const std::string choice = R"(, "tool_choice": {"type": "tool_search"})";
  EXPECT_TRUE(WithItems(user, kSearchTools + choice).answers.parser.begins_with_call);
  const ApiResult<ApiCall> dropped = kResponses.prepare(
      R"({"input": "Hi", "tools": [{"type": "tool_search"}, {"type": "function", "name": "f"}])" +
          choice + "}",
      model_);
  ASSERT_FALSE(dropped) << "a search that OpenAI makes is not made here";
  EXPECT_EQ(dropped.error().message,
            "tool_choice.name: expected the name of one of the tools, found \"tool_search\"");
}

TEST_F(ResponsesHistoryTest, ASearchOfTheClientShowsToolsWhereItFindsThem) {
  const std::string user = R"({"role": "user", "content": "Hi"})";
  EXPECT_THAT(Prompt(user, kSearchTools), Not(HasSubstr("late")));
  EXPECT_THAT(Callable(WithItems(user, kSearchTools)), ElementsAre("tool_search"));
  const ApiCall call = WithItems(kSearched, kSearchTools);
  EXPECT_THAT(PromptFrom(call),
              HasSubstr("<tool_result>"
                        R"({"name": "found", "description": "", "parameters": {"type": "object"}})"
                        "\n\n"
                        R"({"name": "ns__g", "description": "", "parameters": {}})"
                        "</tool_result>"));
  EXPECT_THAT(Callable(call), ElementsAre("tool_search", "found", "ns__g"));
  EXPECT_THAT(Prompt(user, R"(, "tools": [{"type": "tool_search"},
                  {"type": "function", "name": "late", "defer_loading": true}])"),
              HasSubstr("late"))
      << "nobody would search";
}

// The call of such a search is left out, so its result would stand after no call.
TEST_F(ResponsesHistoryTest, ASearchMadeElsewhereHasNoResult) {
  EXPECT_THAT(Prompt(R"({"role": "user", "content": "Hi"},
      {"type": "tool_search_call", "execution": "server", "arguments": {}},
      {"type": "tool_search_output", "execution": "server", "tools": [
          {"type": "function", "name": "found"}]}, {"role": "user", "content": "Go on."})"),
              HasSubstr("<｜User｜>Hi\n\nThese tools can be called from now on:\n\n"
                        R"({"name": "found", "description": "", "parameters": {}})"
                        "\n\nGo on.<｜Assistant｜>"));
}

TEST_F(ResponsesHistoryTest, CallsOfTheSearchAreItsItems) {
  const ApiCall call = WithItems(R"({"role": "user", "content": "Hi"})", kSearchTools);
  const Json response = Whole(call, Pieces({"<｜DSML｜tool_calls>\n<｜DSML｜invoke "
                                            "name=\"tool_search\">\n<｜DSML｜parameter "
                                            "name=\"query\" string=\"true\">q</｜DSML｜parameter>\n"
                                            "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"}));
  const Json& item = response["output"][0];
  EXPECT_EQ(item["type"], "tool_search_call");
  EXPECT_EQ(item["execution"], "client");
  EXPECT_EQ(item["arguments"], Json({{"query", "q"}}));
}

TEST_F(ResponsesHistoryTest, CallsOfTheSearchAreStreamedWhole) {
  const ApiCall call = WithItems(R"({"role": "user", "content": "Hi"})", kSearchTools);
  const std::vector<Json> events =
      Stream(call, Pieces({"<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"tool_search\">\n",
                           "<｜DSML｜parameter name=\"query\" string=\"true\">q",
                           "r</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"}));
  std::vector<std::string> types;
  for (const Json& event : events) types.push_back(event["type"]);
  EXPECT_THAT(types,
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.output_item.done", "response.completed"))
      << "the API has no events for pieces of the arguments";
  const Json& begun = events[2]["item"];
  EXPECT_EQ(begun["type"], "tool_search_call");
  EXPECT_EQ(begun["status"], "in_progress");
  EXPECT_EQ(begun["execution"], "client");
  EXPECT_EQ(begun["arguments"], Json::object());
  const Json& done = events[3]["item"];
  EXPECT_EQ(done["id"], begun["id"]);
  EXPECT_EQ(done["call_id"], begun["call_id"]);
  EXPECT_EQ(done["status"], "completed");
  EXPECT_EQ(done["arguments"], Json({{"query", "qr"}}));
  const std::string stored = events.back()["response"].dump();
  EXPECT_EQ(ReadEvents(ReplayEvents(*ParseJson(stored), 0)), events) << "as it is shown later";
}

TEST_F(ResponsesHistoryTest, AdditionalToolsAreShownAndCalled) {
  const ApiCall call = WithItems(R"({"role": "user", "content": "Hi"},
      {"type": "additional_tools", "tools": [{"type": "function", "name": "f"}]})");
  EXPECT_THAT(PromptFrom(call),
              HasSubstr("Hi\n\nThese tools can be called from now on:\n\n"
                        R"({"name": "f", "description": "", "parameters": {}}<｜Assistant｜>)"));
  EXPECT_THAT(Callable(call), ElementsAre("f"));
}

}  // namespace
}  // namespace fathom::api
