// The Responses API tells of stored responses, and refuses requests that it does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "api/common/query_reader.h"
#include "api/responses/responses_events.h"
#include "tests/api/responses/responses_fixture.h"

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Json;
using testing::ReadEvents;

class ResponsesRoutesTest : public testing::ResponsesTest {
 protected:
  ResponsesRoutesTest() { model_.responses = &store_; }

  ApiResult<ApiReply> Ask(std::string_view method, std::string_view path,
                          const ApiRouteRequest& request) const {
    const auto route =
        std::find_if(kResponses.routes.begin(), kResponses.routes.end(),
                     [&](const ApiRoute& r) { return r.method == method && r.path == path; });
    EXPECT_NE(route, kResponses.routes.end()) << path;
    return route->answer(model_, request);
  }
  Json AskJson(std::string_view method, std::string_view path,
               const ApiRouteRequest& request) const {
    const ApiResult<ApiReply> reply = Ask(method, path, request);
    EXPECT_TRUE(reply) << (reply ? "" : reply.error().message);
    return reply ? Json::parse(reply->body, nullptr, false) : Json();
  }

  // The response, which is stored.
  Json Answer(const std::string& body, const std::vector<std::string>& pieces,
              FinishReason finish = FinishReason::kStop) {
    const ApiCall call = Prepare(body);
    ApiAnswer answer(call, model_, 1700000000, random_bits_);
    Feed(Pieces(pieces, finish), &answer, nullptr, nullptr);
    kResponses.store(answer);
    return Json::parse(WholeReply(answer).body, nullptr, false);
  }

  std::vector<std::string> InputIds(const std::string& id, const std::string& query) const {
    const Json list =
        AskJson("GET", "/v1/responses/{id}/input_items", {.id = id, .query = query, .body = ""});
    std::vector<std::string> ids;
    for (const Json& item : list["data"]) ids.push_back(item["id"].get<std::string>());
    return ids;
  }

  ResponseStore store_;
  const RandomBits random_bits_ = testing::CountingBits();
};

constexpr const char* kShow = "/v1/responses/{id}";
constexpr const char* kInput = "/v1/responses/{id}/input_items";

constexpr const char* kToolsOfClients = R"("tools": [{"type": "function", "name": "f"},
    {"type": "custom", "name": "c"}, {"type": "local_shell"}, {"type": "shell"},
    {"type": "apply_patch"}])";

std::string MakeInvoke(const std::string& tool, const std::string& name, bool is_string,
                       const std::string& value) {
  return "<｜DSML｜invoke name=\"" + tool + "\">\n<｜DSML｜parameter name=\"" + name +
         "\" string=\"" + (is_string ? "true" : "false") + "\">" + value +
         "</｜DSML｜parameter>\n</｜DSML｜invoke>\n";
}
std::string MakeBlock(const std::string& invokes) {
  return "\n\n<｜DSML｜tool_calls>\n" + invokes + "</｜DSML｜tool_calls>";
}

TEST_F(ResponsesRoutesTest, CallsOfTheToolsThatClientsRunAreItemsOfTheirOwn) {
  const std::string invokes =
      MakeInvoke("local_shell", "command", false, R"(["ls", "-l"])") +
      MakeInvoke("local_shell", "command", true, "ls | wc") +
      MakeInvoke("shell", "commands", false, R"(["ls", "pwd"])") +
      "<｜DSML｜invoke name=\"apply_patch\">\n"
      "<｜DSML｜parameter name=\"type\" string=\"true\">update_file</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"path\" string=\"true\">a</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"diff\" string=\"true\">@@\n+b</｜DSML｜parameter>\n"
      "</｜DSML｜invoke>\n";
  const ApiCall call = Prepare(R"({"input": "Hi", )" + std::string(kToolsOfClients) + "}");
  const std::vector<StreamEvent> pieces = Pieces({"</think>", MakeBlock(invokes)});
  const Json output = Whole(call, pieces)["output"];
  ASSERT_EQ(output.size(), 4u);
  const auto expect_item = [&](std::size_t i, const std::string& type, const std::string& prefix,
                               const std::string& field, const Json& value) {
    EXPECT_EQ(output[i]["type"], type);
    EXPECT_THAT(output[i]["id"].get<std::string>(), ::testing::StartsWith(prefix));
    EXPECT_THAT(output[i]["call_id"].get<std::string>(), ::testing::StartsWith("call_"));
    EXPECT_EQ(output[i]["status"], "completed");
    EXPECT_EQ(output[i][field], value) << output[i];
    EXPECT_FALSE(output[i].contains("name"));
  };
  expect_item(0, "local_shell_call", "lsh_", "action",
              {{"type", "exec"}, {"command", {"ls", "-l"}}, {"env", Json::object()}});
  expect_item(1, "local_shell_call", "lsh_", "action",
              {{"type", "exec"}, {"command", {"bash", "-lc", "ls | wc"}}, {"env", Json::object()}});
  expect_item(
      2, "shell_call", "sh_", "action",
      {{"commands", {"ls", "pwd"}}, {"timeout_ms", nullptr}, {"max_output_length", nullptr}});
  expect_item(3, "apply_patch_call", "apc_", "operation",
              {{"type", "update_file"}, {"path", "a"}, {"diff", "@@\n+b"}});
  int n_added = 0;
  for (const Json& event : Stream(call, pieces)) {
    n_added += event["type"] == "response.output_item.added" ? 1 : 0;
    EXPECT_FALSE(event.contains("delta")) << event;
  }
  EXPECT_EQ(n_added, 4);
}

// A client that runs the call and sends it back with its result goes on with the same prompt.
TEST_F(ResponsesRoutesTest, TheirResultsComeBack) {
  const std::string tools = std::string(kToolsOfClients);
  const ApiCall call = Prepare(R"({"input": "Hi", )" + tools + "}");
  const std::string block = MakeBlock(MakeInvoke("shell", "commands", false, R"(["ls"])"));
  const Json item = Whole(call, Pieces({"</think>", block}))["output"][0];
  const Json result = {
      {"type", "shell_call_output"},
      {"call_id", item["call_id"]},
      {"output",
       {{{"stdout", "a"}, {"stderr", ""}, {"outcome", {{"type", "exit"}, {"exit_code", 0}}}}}}};
  const ApiCall next = Prepare(R"({"input": [{"role": "user", "content": "Hi"}, )" + item.dump() +
                               ", " + result.dump() + "], " + tools + "}");
  EXPECT_EQ(PromptFrom(next),
            PromptFrom(call) + "</think>" + block + "<｜end▁of▁sentence｜><｜User｜><tool_result>" +
                R"([{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}])" +
                "</tool_result><｜Assistant｜><think>");
}

// Without numbers, and with neighbouring deltas as one: a replay has each text in one piece.
std::vector<Json> Joined(const std::vector<Json>& events) {
  std::vector<Json> joined;
  for (Json event : events) {
    event.erase("sequence_number");
    const bool goes_on =
        event.contains("delta") && !joined.empty() && joined.back()["type"] == event["type"];
    if (goes_on) {
      Json& delta = joined.back()["delta"];
      delta = delta.get<std::string>() + event["delta"].get<std::string>();
    } else {
      joined.push_back(std::move(event));
    }
  }
  return joined;
}

TEST_F(ResponsesRoutesTest, AStoredResponseIsStreamedAsItWasThen) {
  const std::string calls =
      MakeBlock(MakeInvoke("f", "a", true, "x") + MakeInvoke("c", "input", true, "y") +
                MakeInvoke("shell", "commands", false, "[]"));
  for (const char* reasoning : {"", R"("reasoning": {"summary": "auto"}, )"}) {
    for (const FinishReason finish : {FinishReason::kStop, FinishReason::kLength}) {
      for (const std::string& text : {std::string("Hm.</think>Hello."), "Hm.</think>" + calls,
                                      "Hm.</think>So." + calls.substr(0, calls.size() / 3),
                                      std::string("Hm."), std::string()}) {
        const std::string body =
            std::string(R"({"input": "Hi", )") + reasoning + kToolsOfClients + "}";
        const ApiCall call = Prepare(body);
        const std::vector<Json> streamed = Stream(call, Pieces({text}, finish));
        const Json response = streamed.back()["response"];
        const std::string json = response.dump();
        const std::vector<Json> replayed = ReadEvents(ReplayEvents(*ParseJson(json), 0));
        for (std::size_t i = 0; i < replayed.size(); ++i) {
          EXPECT_EQ(replayed[i]["sequence_number"], i);
        }
        EXPECT_EQ(Joined(replayed), Joined(streamed)) << text;
      }
    }
  }
}

TEST_F(ResponsesRoutesTest, AStreamGoesOnBehindANumber) {
  const std::string id = Answer(R"({"input": "Hi"})", {"Hm.</think>Hello."})["id"];
  EXPECT_EQ(Ask("GET", kShow, {.id = id, .query = "", .body = ""})->content_type,
            "application/json");
  const auto stream = [&](const std::string& query) {
    const ApiResult<ApiReply> reply = Ask("GET", kShow, {.id = id, .query = query, .body = ""});
    EXPECT_TRUE(reply) << query;
    EXPECT_THAT(std::string(reply->content_type), HasSubstr("text/event-stream"));
    return ReadEvents(reply->body);
  };
  const std::vector<Json> all = stream("stream=true");
  EXPECT_EQ(all.front()["type"], "response.created");
  EXPECT_EQ(all.back()["type"], "response.completed");
  const std::vector<Json> rest = stream("starting_after=3&stream=true");
  EXPECT_EQ(rest, std::vector<Json>(all.begin() + 4, all.end()));
  const auto param = [&](const std::string& query) {
    const auto reply = Ask("GET", kShow, {.id = id, .query = query, .body = ""});
    return reply ? "accepted" : reply.error().param;
  };
  EXPECT_EQ(param("stream=yes"), "stream");
  EXPECT_EQ(param("stream=true&starting_after=-1"), "starting_after");
  EXPECT_EQ(Ask("GET", kShow, {.id = "resp_0", .query = "stream=true", .body = ""}).error().status,
            404);
}

TEST_F(ResponsesRoutesTest, TheInputOfAResponseIsAList) {
  const std::string first = Answer(R"({"input": "Hi"})", {"</think>a"})["id"];
  const std::string id = Answer(R"({"previous_response_id": ")" + first + R"(", "input": [
      {"id": "msg_mine", "role": "user", "content": [{"type": "input_text", "text": "b"}]},
      {"type": "message", "role": "developer", "content": "c"},
      {"role": "user", "content": "d"}]})",
                                {"</think>e"})["id"];
  const std::vector<std::string> ids = InputIds(id, "order=asc");
  ASSERT_EQ(ids.size(), 5u) << "with what came before";
  EXPECT_EQ(ids[2], "msg_mine");
  std::vector<std::string> backwards(ids.rbegin(), ids.rend());
  EXPECT_EQ(InputIds(id, ""), backwards);
  EXPECT_THAT(InputIds(id, "order=asc&after=msg_mine"), ElementsAre(ids[3], ids[4]));
  EXPECT_THAT(InputIds(id, "limit=2"), ElementsAre(ids[4], ids[3]));
  EXPECT_EQ(InputIds(first, "").size(), 1u);
  EXPECT_EQ(InputIds(first, "")[0], ids[0]) << "an item keeps its id";
  const Json list = AskJson("GET", kInput, {.id = id, .query = "limit=2&order=asc", .body = ""});
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["has_more"], true);
  EXPECT_EQ(list["first_id"], ids[0]);
  EXPECT_EQ(list["last_id"], ids[1]);
  EXPECT_EQ(list["data"][0]["type"], "message");
  EXPECT_EQ(list["data"][0]["role"], "user");
  EXPECT_EQ(list["data"][0]["content"], Json({{{"type", "input_text"}, {"text", "Hi"}}}));
  EXPECT_EQ(list["data"][1]["content"][0]["text"], "a");
  const auto param = [&](const std::string& query) {
    const auto reply = Ask("GET", kInput, {.id = id, .query = query, .body = ""});
    return reply ? "accepted" : reply.error().param;
  };
  EXPECT_EQ(param("limit=0"), "limit");
  EXPECT_EQ(param("limit=101"), "limit");
  EXPECT_EQ(param("order=up"), "order");
  std::string euros;  // a text that is cut, and not within a character
  for (int i = 0; i < 50; ++i) euros += "\u20AC";
  const auto quoted = Ask("GET", kInput, {.id = id, .query = "order=" + euros, .body = ""});
  EXPECT_THAT(quoted.error().message, HasSubstr(euros.substr(0, 3 * 33) + "..."));
  EXPECT_EQ(param("after=msg_other"), "after");
  EXPECT_EQ(Ask("GET", kInput, {.id = id, .query = "after=msg_other", .body = ""}).error().status,
            404);
  EXPECT_EQ(Ask("GET", kInput, {.id = "resp_0", .query = "", .body = ""}).error().status, 404);
}

TEST_F(ResponsesRoutesTest, TheTokensOfAnInputAreThoseOfItsPrompt) {
  const std::string body = R"({"input": "Hi there", "instructions": "Be brief."})";
  const Json count =
      AskJson("POST", "/v1/responses/input_tokens", {.id = "", .query = "", .body = body});
  EXPECT_EQ(count["object"], "response.input_tokens");
  EXPECT_EQ(count["input_tokens"], Prepare(body).requests[0].prompt.size());
  EXPECT_EQ(Ask("POST", "/v1/responses/input_tokens", {.id = "", .query = "", .body = "{}"})
                .error()
                .param,
            "input");
}

TEST_F(ResponsesRoutesTest, NothingIsCompacted) {
  const auto reply = Ask("POST", "/v1/responses/compact", {.id = "", .query = "", .body = "{}"});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().status, 404);
}

TEST(QueryReaderTest, ReadsFields) {
  QueryReader query("a=1&bb=x&c&d=&a=2&e=5=6");
  EXPECT_EQ(query.Find("a"), "1");
  EXPECT_EQ(query.Find("b"), std::nullopt);
  EXPECT_EQ(query.Find("bb"), "x");
  EXPECT_EQ(query.Find("c"), "");
  EXPECT_EQ(query.Find("d"), "");
  EXPECT_EQ(query.Find("e"), "5=6");
  EXPECT_EQ(query.Integer("a", {.low = 0, .high = 3}, 7), 1);
  EXPECT_EQ(query.Integer("f", {.low = 0, .high = 3}, 7), 7);
  EXPECT_FALSE(query.error());
  EXPECT_EQ(query.Integer("bb", {.low = 0, .high = 3}, 7), 7);
  ASSERT_TRUE(query.error());
  EXPECT_EQ(query.error()->message, R"(bb: expected an integer from 0 to 3, found "x")");
}

TEST(QueryReaderTest, ChecksEachValueOfAList) {
  constexpr std::string_view kTexts[] = {"a", "b"};
  QueryReader right("x=a&x[]=b&x%5B%5D=a&xy=c&x[0]=c");
  right.CheckList("x", kTexts);
  EXPECT_FALSE(right.error());
  for (const char* query : {"x=c", "x=a&x[]=c", "x%5b%5d=c", "x", "x[]="}) {
    QueryReader wrong(query);
    wrong.CheckList("x", kTexts);
    ASSERT_TRUE(wrong.error()) << query;
    EXPECT_THAT(wrong.error()->message, ::testing::StartsWith("x: expected one of a, b, found "));
  }
}

TEST(QueryReaderTest, RefusesEmptyTexts) {
  QueryReader flag("stream=");
  EXPECT_FALSE(flag.Flag("stream"));
  ASSERT_TRUE(flag.error());
  EXPECT_EQ(flag.error()->message, R"(stream: expected false or true, found "")");
  QueryReader integer("limit");
  EXPECT_EQ(integer.Integer("limit", {.low = 1, .high = 9}, 7), 7);
  ASSERT_TRUE(integer.error());
  EXPECT_EQ(integer.error()->message, R"(limit: expected an integer from 1 to 9, found "")");
}

}  // namespace
}  // namespace fathom::api
