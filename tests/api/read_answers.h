// Reads an answer of each API as a client does, whole or from the events of a stream.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/anthropic/messages_api.h"
#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"

namespace fathom::testing {

struct ReadCall {
  std::string name;
  std::string arguments;  // whole answers of messages: of the object that they have
};

struct ReadAnswer {
  using Json = nlohmann::ordered_json;

  std::string FirstArguments() const { return calls.empty() ? "" : calls[0].arguments; }

  std::string reasoning{};
  std::string content{};
  std::vector<ReadCall> calls{};
  std::string finish{};  // in the API's words
};

// The words of an API for the three ends of an answer.
struct AnswerWords {
  std::string name;
  const Api* api;
  std::string stop;
  std::string calls;
  std::string length;
};

inline const AnswerWords kChatWords = {"Chat", &kChatCompletions, "stop", "tool_calls", "length"};
inline const AnswerWords kCompletionWords = {"Completions", &kCompletions, "stop", "", "length"};
inline const AnswerWords kResponsesWords = {"Responses", &kResponses, "completed", "completed",
                                            "incomplete"};
inline const AnswerWords kMessagesWords = {"Messages", &kMessages, "end_turn", "tool_use",
                                           "max_tokens"};

// The JSON of the events of a stream.
inline std::vector<ReadAnswer::Json> ReadEventData(std::string_view stream) {
  std::vector<ReadAnswer::Json> events;
  constexpr std::string_view kData = "data: {";
  for (std::size_t at = stream.find(kData); at != std::string_view::npos;) {
    const std::size_t end = stream.find("\n\n", at);
    events.push_back(ReadAnswer::Json::parse(stream.substr(at + 6, end - at - 6), nullptr, false));
    at = stream.find(kData, end);
  }
  return events;
}

// Appends a string of an object, if it is there.
inline void AddField(const ReadAnswer::Json& object, const char* key, std::string* text) {
  if (!object.is_object()) return;
  const auto found = object.find(key);
  if (found != object.end() && found->is_string()) *text += found->get<std::string>();
}

// Reads the choice of a whole response, or of a chunk.
inline void AddChoice(const ReadAnswer::Json& choice, ReadAnswer* answer) {
  const ReadAnswer::Json& message = choice.contains("message") ? choice["message"]
                                    : choice.contains("delta") ? choice["delta"]
                                                               : choice;
  AddField(message, "reasoning", &answer->reasoning);
  AddField(message, choice.contains("text") ? "text" : "content", &answer->content);
  if (message.contains("tool_calls")) {
    for (const ReadAnswer::Json& call : message["tool_calls"]) {
      if (call.contains("id")) answer->calls.push_back({.name = call["function"]["name"]});
      AddField(call["function"], "arguments", &answer->calls.back().arguments);
    }
  }
  AddField(choice, "finish_reason", &answer->finish);
}

inline void AddResponse(const ReadAnswer::Json& response, ReadAnswer* answer) {
  for (const ReadAnswer::Json& item : response["output"]) {
    const auto texts = item.value("content", ReadAnswer::Json::array());
    for (const ReadAnswer::Json& part : texts) {
      AddField(part, "text", item["type"] == "message" ? &answer->content : &answer->reasoning);
    }
    if (item["type"] == "function_call") {
      answer->calls.push_back({.name = item["name"], .arguments = item["arguments"]});
    }
  }
  answer->finish = response["status"];
}

inline void AddResponseEvent(const ReadAnswer::Json& event, ReadAnswer* answer) {
  const std::string type = event["type"];
  if (type == "response.reasoning_text.delta") AddField(event, "delta", &answer->reasoning);
  if (type == "response.output_text.delta") AddField(event, "delta", &answer->content);
  if (type == "response.output_item.added" && event["item"]["type"] == "function_call") {
    answer->calls.push_back({.name = event["item"]["name"]});
  }
  if (type == "response.function_call_arguments.delta") {
    AddField(event, "delta", &answer->calls.back().arguments);
  }
  if (type == "response.completed" || type == "response.incomplete") {
    answer->finish = event["response"]["status"];
  }
}

inline void AddMessage(const ReadAnswer::Json& message, ReadAnswer* answer) {
  for (const ReadAnswer::Json& block : message["content"]) {
    AddField(block, "thinking", &answer->reasoning);
    AddField(block, "text", &answer->content);
    if (block["type"] == "tool_use") {
      answer->calls.push_back({.name = block["name"], .arguments = block["input"].dump()});
    }
  }
  answer->finish = message["stop_reason"];
}

inline void AddMessageEvent(const ReadAnswer::Json& event, ReadAnswer* answer) {
  if (event["type"] == "content_block_start" && event["content_block"]["type"] == "tool_use") {
    answer->calls.push_back({.name = event["content_block"]["name"]});
  }
  if (!event.contains("delta")) return;
  const ReadAnswer::Json& delta = event["delta"];
  AddField(delta, "thinking", &answer->reasoning);
  AddField(delta, "text", &answer->content);
  AddField(delta, "stop_reason", &answer->finish);
  if (delta.contains("partial_json")) {
    AddField(delta, "partial_json", &answer->calls.back().arguments);
  }
}

inline ReadAnswer ReadToldWhole(const Api* api, const ReadAnswer::Json& whole) {
  ReadAnswer answer;
  if (api == &kMessages) {
    AddMessage(whole, &answer);
  } else if (api == &kResponses) {
    AddResponse(whole, &answer);
  } else {
    AddChoice(whole["choices"][0], &answer);
  }
  return answer;
}

inline ReadAnswer ReadToldStream(const Api* api, const std::string& stream) {
  ReadAnswer answer;
  for (const ReadAnswer::Json& event : ReadEventData(stream)) {
    if (api == &kMessages) {
      AddMessageEvent(event, &answer);
    } else if (api == &kResponses) {
      AddResponseEvent(event, &answer);
    } else if (!event["choices"].empty()) {
      AddChoice(event["choices"][0], &answer);
    }
  }
  return answer;
}

}  // namespace fathom::testing
