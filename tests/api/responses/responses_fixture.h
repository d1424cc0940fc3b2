// A call of the Responses API and its answer, whole and as events.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api.h"
#include "api/responses/responses_api.h"
#include "api/responses/responses_json.h"
#include "tests/api/api_model.h"

namespace fathom::testing {

using Json = nlohmann::ordered_json;

// "event: NAME\ndata: {...}\n\n" and so on -> the data; every name is the type of its data.
inline std::vector<Json> ReadEvents(std::string_view stream) {
  std::vector<Json> events;
  while (!stream.empty()) {
    const std::size_t line = stream.find('\n');
    const std::size_t end = stream.find("\n\n");
    EXPECT_NE(end, std::string_view::npos) << stream;
    if (end == std::string_view::npos) break;
    EXPECT_EQ(stream.substr(line + 1, 6), "data: ");
    events.push_back(Json::parse(stream.substr(line + 7, end - line - 7), nullptr, false));
    EXPECT_EQ(stream.substr(0, line), "event: " + events.back()["type"].get<std::string>());
    stream.remove_prefix(end + 2);
  }
  return events;
}

class ResponsesTest : public ApiModelTest {
 protected:
  ResponsesTest() { model_.limits.max_context = 8192; }

  // The answer in these pieces, without tokens.
  static std::vector<StreamEvent> Pieces(const std::vector<std::string>& texts,
                                         FinishReason finish = FinishReason::kStop) {
    std::vector<StreamEvent> events;
    for (const std::string& text : texts) events.push_back({.text = text});
    events.push_back({.finish = finish});
    if (finish == FinishReason::kError) events.back().error = Error{ErrorCode::kIo, "out of luck"};
    return events;
  }

  ApiCall Prepare(const std::string& body) const {
    ApiResult<ApiCall> call = kResponses.prepare(body, model_);
    EXPECT_TRUE(call) << body << ": " << (call ? "" : call.error().message);
    return call ? *std::move(call) : ApiCall();
  }

  std::string PromptFrom(const ApiCall& call) const {
    return *tokenizer_.Decode(call.requests[0].prompt);
  }

  // Gives `answer` the events, and the format, if there is one, what it makes of them.
  static void Feed(const std::vector<StreamEvent>& events, ApiAnswer* answer, AnswerFormat* format,
                   std::string* out) {
    // The engine's count of generated tokens is not used: only returned tokens count.
    const RequestStats stats = {.prompt_tokens = 30, .cached_tokens = 10, .generated_tokens = 1000};
    answer->Start(0, stats);
    if (format != nullptr) format->Begin(*answer, out);
    for (const StreamEvent& event : events) {
      const AnswerPiece piece = answer->Add(0, event);
      if (format != nullptr && !event.error) format->Add(*answer, piece, out);
    }
    answer->End(0, stats);
    if (format == nullptr) return;
    answer->error() ? format->Fail(*answer, *answer->error(), out) : format->End(*answer, out);
  }

  std::string StreamText(const ApiCall& call, const std::vector<StreamEvent>& events) const {
    ApiAnswer answer(call, model_, 1700000000, CountingBits());
    std::string out;
    Feed(events, &answer, answer.call().api->make_format().get(), &out);
    return out;
  }

  // Checks what holds for every stream.
  std::vector<Json> Stream(const ApiCall& call, const std::vector<StreamEvent>& events) const {
    const std::vector<Json> told = ReadEvents(StreamText(call, events));
    Json done = Json::array();
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i]["sequence_number"], i);
      if (told[i]["type"] == "response.output_item.done") done.push_back(told[i]["item"]);
    }
    // An item that was cut off need not be completed.
    Json output = told.back()["response"]["output"];
    if (told.back()["type"] != "response.completed" && output.size() > done.size()) {
      EXPECT_EQ(output.back()["status"], "incomplete");
      output.erase(output.size() - 1);
    }
    EXPECT_EQ(output, done);
    return told;
  }

  Json Whole(const ApiCall& call, const std::vector<StreamEvent>& events) const {
    ApiAnswer answer(call, model_, 1700000000, CountingBits());
    Feed(events, &answer, nullptr, nullptr);
    return Json::parse(WholeReply(answer).body, nullptr, false);
  }
};

}  // namespace fathom::testing
