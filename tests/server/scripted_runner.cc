#include "tests/server/scripted_runner.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "engine/stop_strings.h"

namespace fathom::testing {
namespace {

constexpr std::string_view kUser = "<｜User｜>";
constexpr std::string_view kAssistant = "<｜Assistant｜>";
constexpr Token kEos = 1;

// The part of the answer that the prompt already contains.
std::string_view AnswerInPrompt(std::string_view prompt) {
  const std::size_t begin = prompt.rfind(kAssistant);
  if (begin == std::string_view::npos) return "";
  std::string_view rest = prompt.substr(begin + kAssistant.size());
  for (const std::string_view tag : {"<think>", "</think>"}) {
    if (rest.starts_with(tag)) return rest.substr(tag.size());
  }
  return rest;
}

bool Contains(const std::vector<Token>& tokens, Token token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// Returns the events of the text, divided as the script asks: an event's token may have no text,
// and the text of a token may come in parts, the later ones without a token.
std::vector<StreamEvent> MakeEvents(const ScriptedAnswer& answer, std::string_view text,
                                    const std::vector<Token>& tokens, const Tokenizer& tokenizer) {
  std::vector<StreamEvent> events;
  for (const Token token : tokens) {
    events.push_back({.token = token, .index = static_cast<std::int64_t>(events.size())});
    if (!answer.cut && !answer.bytewise) events.back().text = tokenizer.TokenBytes(token);
  }
  if (answer.cut) {
    events.resize(std::max<std::size_t>(events.size(), 2));
    const std::size_t cut = std::min(*answer.cut, text.size());
    events[0].text = text.substr(0, cut);
    events[1].text = text.substr(cut);
  } else if (answer.bytewise) {
    const std::size_t n_tokens = events.size();
    events.resize(std::max(n_tokens, text.size()));
    for (std::size_t i = 0; i < text.size(); ++i) events[i].text = text.substr(i, 1);
  }
  return events;
}

class ScriptedRequest final : public RunningRequest {
 public:
  ScriptedRequest(const Request& request, ScriptedAnswer answer, std::vector<StreamEvent> events,
                  std::atomic<int>& cancelled)
      : answer_(std::move(answer)), cancelled_(cancelled) {
    stats_.prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
    stats_.cached_tokens = answer_.cached_tokens;
    for (int choice = 0; choice < request.n_choices; ++choice) Add(request, choice, events);
    // The choices take turns, as in a batch.
    std::stable_sort(events_.begin(), events_.end(),
                     [](const StreamEvent& a, const StreamEvent& b) { return a.index < b.index; });
    next_time_ = std::chrono::steady_clock::now() + answer_.first_delay + answer_.delay;
  }
  ~ScriptedRequest() override { cancelled_ += next_ < events_.size() ? 1 : 0; }

  std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) override {
    if (next_ == events_.size()) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_time_) {
      std::this_thread::sleep_until(std::min(next_time_, now + timeout));
      if (std::chrono::steady_clock::now() < next_time_) return std::nullopt;
    }
    event = events_[next_++];
    next_time_ = std::chrono::steady_clock::now() + answer_.delay;
    return true;
  }
  RequestStats stats() const override { return stats_; }
  // As in an engine: every unfinished choice ends with kCancelled.
  void Cancel() override {
    std::vector<StreamEvent> ends;
    for (std::size_t i = next_; i < events_.size(); ++i) {
      if (!events_[i].finish) continue;
      ends.push_back({.choice = events_[i].choice,
                      .index = events_[i].index,
                      .finish = FinishReason::kCancelled});
    }
    events_.resize(next_);
    std::move(ends.begin(), ends.end(), std::back_inserter(events_));
    next_time_ = {};
  }

 private:
  // As in an engine: a choice ends at a token, a text or a number of tokens.
  void Add(const Request& request, int choice, const std::vector<StreamEvent>& events) {
    const SamplingParameters& sampling = request.sampling;
    StopStrings stops(sampling.stop_strings);
    std::int64_t index = 0;
    for (StreamEvent event : events) {
      event.choice = static_cast<std::uint32_t>(choice);
      event.index = index++;
      stats_.generated_tokens += event.token == StreamEvent::kNoToken ? 0 : 1;
      const bool is_stop = Contains(sampling.stop_tokens, event.token);
      if (Contains(sampling.silent_tokens, event.token)) event.text.clear();
      event.text = is_stop ? "" : std::string(stops.Feed(event.text));
      if (stops.matched()) {
        event.finish = FinishReason::kStopString;
        event.stop_string = stops.matched();
      } else if (is_stop) {
        event.finish = FinishReason::kStop;
      } else if (sampling.max_tokens && index >= *sampling.max_tokens) {
        event.finish = FinishReason::kLength;
      }
      if (event.finish) event.text += stops.Flush();
      if (sampling.top_logprobs) event.logprobs = MakeLogprobs(event.token);
      events_.push_back(event);
      if (event.finish) return;
    }
    StreamEvent last = {.choice = static_cast<std::uint32_t>(choice),
                        .index = index,
                        .text = std::string(stops.Flush()),
                        .finish = answer_.finish,
                        .error = answer_.error};
    if (answer_.finish == FinishReason::kStop) {
      last.token = kEos;
      ++stats_.generated_tokens;
      if (sampling.top_logprobs) last.logprobs = MakeLogprobs(kEos);
    }
    events_.push_back(last);
  }

  static TokenLogprobs MakeLogprobs(Token token) {
    const TokenLogprob chosen = {.token = token, .logprob = -0.5f};
    return {.chosen = chosen, .top = {chosen}};
  }

  const ScriptedAnswer answer_;
  std::atomic<int>& cancelled_;
  RequestStats stats_;
  std::vector<StreamEvent> events_;
  std::size_t next_ = 0;
  std::chrono::steady_clock::time_point next_time_;
};

}  // namespace

Result<std::unique_ptr<RunningRequest>> ScriptedRunner::Submit(Request request) {
  std::string prompt;
  for (const Token token : request.prompt) prompt += tokenizer_.TokenBytes(token);
  Result<ScriptedAnswer> answer = script_(prompt);
  if (!answer) return Unexpected(answer.error());
  std::string_view text = answer->text;
  const std::string_view told = AnswerInPrompt(prompt);
  if (text.starts_with(told)) text.remove_prefix(told.size());
  const Result<std::vector<Token>> tokens =
      tokenizer_.Encode(text, answer->is_plain ? SpecialTokens::kPlainText : SpecialTokens::kParse);
  if (!tokens) return Unexpected(tokens.error());
  ++submitted_;
  std::vector<StreamEvent> events = MakeEvents(*answer, text, *tokens, tokenizer_);
  return std::make_unique<ScriptedRequest>(request, *std::move(answer), std::move(events),
                                           cancelled_);
}

std::string LastUserText(const std::string& prompt) {
  const std::size_t user = prompt.rfind(kUser);
  if (user == std::string::npos) return prompt;
  const std::size_t begin = user + kUser.size();
  return prompt.substr(begin, prompt.find(kAssistant, begin) - begin);
}

}  // namespace fathom::testing
