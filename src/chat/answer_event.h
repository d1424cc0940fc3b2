// AnswerEvent: the events of the parser of answers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom::chat {

// The reason why an answer ended, in OpenAI's terms. The engine's FinishReason, which does not know
// of calls, is the reason why the generation ended.
enum class ChatFinishReason {
  kStop,       // the model or a stop condition ended the answer
  kLength,     // the token limit or the context is reached
  kToolCalls,  // the model ended and made at least one complete call
};

// Returns OpenAI's name: "stop", "length", "tool_calls".
constexpr std::string_view ChatFinishReasonName(ChatFinishReason reason) {
  switch (reason) {
    case ChatFinishReason::kLength:
      return "length";
    case ChatFinishReason::kToolCalls:
      return "tool_calls";
    case ChatFinishReason::kStop:
      break;
  }
  return "stop";
}

struct AnswerEvent {
  enum class Kind {
    kReasoningDelta,  // text
    kContentDelta,    // text
    kCallBegin,       // call, id, name
    kArgumentsDelta,  // call, text: joined over the call they are a JSON object, unless it is cut
    kCallEnd,         // call, is_cut, n_finished
    kFinish,          // finish; the last event
  };
  // Returns whether the event belongs to a call.
  bool is_of_call() const {
    return kind == Kind::kCallBegin || kind == Kind::kArgumentsDelta || kind == Kind::kCallEnd;
  }

  Kind kind = Kind::kFinish;
  std::size_t call = 0;  // index of the call in the answer, from 0
  std::string text{};    // whole code points, never empty
  std::string id{};
  std::string name{};
  ChatFinishReason finish = ChatFinishReason::kStop;
  // A limit ended the answer in this call. Its arguments end where the model was cut; their first
  // n_finished bytes are an object with the finished parameters that lacks only its closing brace.
  bool is_cut = false;
  std::size_t n_finished = 0;
};

// The events of one step in order; neighbouring deltas of one kind are joined.
class AnswerEvents {
 public:
  void AddDelta(AnswerEvent::Kind kind, std::string_view text, std::size_t call = 0) {
    if (text.empty()) return;
    if (events_.empty() || events_.back().kind != kind || events_.back().call != call) {
      events_.push_back({.kind = kind, .call = call});
    }
    events_.back().text.append(text);
  }

  void Add(AnswerEvent event) { events_.push_back(std::move(event)); }

  std::vector<AnswerEvent> Take() { return std::exchange(events_, {}); }

 private:
  std::vector<AnswerEvent> events_;
};

}  // namespace fathom::chat
