// Answers as clients get them: the stream of a call, and what a client makes of it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/common/api.h"
#include "tests/api/api_model.h"

namespace fathom::testing {

// Both forms of one answer.
struct ToldAnswer {
  std::string stream;
  nlohmann::ordered_json whole;
};

// Events come in the order given, of the choices they name; all are of request 0.
inline ToldAnswer Tell(const ApiCall& call, const ApiModel& model,
                       const std::vector<StreamEvent>& events, RequestStats stats = {}) {
  ApiAnswer answer(call, model, 1700000000, CountingBits());
  const std::unique_ptr<AnswerFormat> format = answer.call().api->make_format();
  stats.prompt_tokens = static_cast<std::int64_t>(call.requests[0].prompt.size());
  answer.Start(0, stats);
  ToldAnswer told;
  format->Begin(answer, &told.stream);
  for (const StreamEvent& event : events) {
    format->Add(answer, answer.Add(0, event), &told.stream);
    if (answer.error()) {
      format->Fail(answer, *answer.error(), &told.stream);
      return told;
    }
  }
  answer.End(0, stats);
  format->End(answer, &told.stream);
  told.whole = nlohmann::ordered_json::parse(WholeReply(answer).body, nullptr, false);
  return told;
}

// The chunks of a stream; checks the framing and that [DONE] is its end.
inline std::vector<nlohmann::ordered_json> Chunks(std::string_view stream) {
  constexpr std::string_view kEnd = "data: [DONE]\n\n";
  EXPECT_TRUE(stream.ends_with(kEnd));
  stream.remove_suffix(std::min(kEnd.size(), stream.size()));
  std::vector<nlohmann::ordered_json> chunks;
  while (!stream.empty()) {
    const std::size_t end = stream.find("\n\n");
    EXPECT_TRUE(stream.starts_with("data: ") && end != std::string_view::npos) << stream;
    if (end == std::string_view::npos) break;
    chunks.push_back(nlohmann::ordered_json::parse(stream.substr(6, end - 6), nullptr, false));
    stream.remove_prefix(end + 2);
  }
  return chunks;
}

// A choice as a client joins it from its chunks, in the form of a whole one.
class JoinedChoice {
 public:
  using Json = nlohmann::ordered_json;

  // Checks the rules of deltas on the way.
  void Add(const Json& choice) {
    EXPECT_FALSE(is_finished_) << "a chunk after the last";
    const Json& delta = choice["delta"];
    if (delta.contains("role")) {
      EXPECT_FALSE(has_begun_);
      EXPECT_EQ(delta, Json({{"role", "assistant"}, {"content", ""}}));
      has_begun_ = true;
    } else if (delta.contains("reasoning")) {
      EXPECT_EQ(delta.size(), 2u) << delta;
      EXPECT_EQ(delta["reasoning"], delta["reasoning_content"]);
      reasoning_ += Text(delta["reasoning"]);
    } else if (delta.contains("content")) {
      EXPECT_EQ(delta.size(), 1u) << delta;
      content_ += Text(delta["content"]);
    } else if (delta.contains("tool_calls")) {
      EXPECT_EQ(delta.size(), 1u) << delta;
      for (const Json& call : delta["tool_calls"]) AddCall(call);
    } else {
      EXPECT_TRUE(delta.empty()) << delta;
      is_finished_ = true;
      finish_ = choice["finish_reason"];
      stop_ = choice["stop_reason"];
    }
    EXPECT_TRUE(has_begun_) << "the role is told first";
    EXPECT_EQ(choice["finish_reason"].is_null(), !is_finished_);
    AddLogprobs(choice["logprobs"]);
  }

  Json Whole(std::size_t index) const {
    EXPECT_TRUE(is_finished_);
    Json message = {{"role", "assistant"}, {"content", content_}, {"refusal", nullptr}};
    if (content_.empty() && !calls_.empty()) message["content"] = nullptr;
    if (!reasoning_.empty()) {
      message["reasoning_content"] = reasoning_;
      message["reasoning"] = reasoning_;
    }
    if (!calls_.empty()) message["tool_calls"] = calls_;
    return {{"index", index},
            {"message", message},
            {"logprobs", logprobs_},
            {"finish_reason", finish_},
            {"stop_reason", stop_}};
  }

 private:
  static std::string Text(const Json& json) {
    EXPECT_TRUE(json.is_string() && !json.get<std::string>().empty()) << json;
    return json.is_string() ? json.get<std::string>() : "";
  }

  void AddCall(const Json& call) {
    const auto index = call["index"].get<std::size_t>();
    if (call.contains("id")) {
      EXPECT_EQ(index, calls_.size());
      EXPECT_EQ(call["function"]["arguments"], "");
      calls_.push_back(
          {{"id", call["id"]}, {"type", call["type"]}, {"function", call["function"]}});
      return;
    }
    ASSERT_LT(index, calls_.size());
    Json& arguments = calls_[index]["function"]["arguments"];
    arguments = arguments.get<std::string>() + Text(call["function"]["arguments"]);
  }

  void AddLogprobs(const Json& logprobs) {
    if (logprobs.is_null()) return;
    if (logprobs_.is_null()) logprobs_ = {{"content", Json::array()}};
    for (const auto& [key, entries] : logprobs.items()) {
      for (const Json& entry : entries) logprobs_[key].push_back(entry);
    }
  }

  bool has_begun_ = false;
  bool is_finished_ = false;
  std::string reasoning_;
  std::string content_;
  Json calls_ = Json::array();
  Json logprobs_;
  Json finish_;
  Json stop_;
};

// All choices of a stream of chat completions, as the whole response has them.
inline nlohmann::ordered_json JoinChoices(const std::vector<nlohmann::ordered_json>& chunks) {
  std::vector<JoinedChoice> choices;
  for (const nlohmann::ordered_json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    for (const char* key : {"id", "created", "model", "system_fingerprint"}) {
      EXPECT_EQ(chunk[key], chunks.front()[key]) << key;
    }
    for (const nlohmann::ordered_json& choice : chunk["choices"]) {
      const auto index = choice["index"].get<std::size_t>();
      if (index >= choices.size()) choices.resize(index + 1);
      choices[index].Add(choice);
    }
  }
  nlohmann::ordered_json joined = nlohmann::ordered_json::array();
  for (const JoinedChoice& choice : choices) joined.push_back(choice.Whole(joined.size()));
  return joined;
}

}  // namespace fathom::testing
