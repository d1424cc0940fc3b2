#include "api/common/forced_call.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "api/common/answer_collector.h"
#include "api/common/api_call.h"
#include "api/common/prompt_tokens.h"
#include "chat/encoder.h"
#include "chat/literals.h"

namespace fathom {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The longest wait for one request while others run.
constexpr Milliseconds kSlice(2);
// Stands for "no limit" where times are added.
constexpr Milliseconds kLongest = std::chrono::hours(24);

// The engine clamps biases to this value; no two logits of a model are further apart.
constexpr double kOnlyThese = 100;

Token NextToken(const ForcedCall::Opener& opener, std::size_t n_matched) {
  return opener.tokens[n_matched];
}

bool IsExhausted(const ForcedCall::Opener& opener, std::size_t n_matched) {
  return opener.tokens.size() == n_matched;
}

// Runs the requests of a forced call as one. Used by one thread. The destructor cancels running
// requests.
class ForcedRequest final : public RunningRequest {
 public:
  // call.forced_call is set; `runner` and `call` must outlive the object.
  ForcedRequest(RequestRunner& runner, const ApiCall& call, Request request)
      : runner_(runner),
        forced_(*call.forced_call),
        answers_(call.answers),
        request_(std::move(request)) {
    const RandomBits random_bits = SystemRandomBits();
    // All requests use one seed: the noise is keyed by the position in the text, so that together
    // they sample what one request would.
    if (!request_.sampling.seed) request_.sampling.seed = random_bits();
    for (int i = 0; i < request_.n_choices; ++i) {
      choices_.emplace_back(static_cast<std::uint32_t>(i), call.answers, random_bits);
    }
    stats_.seed = *request_.sampling.seed;
    stats_.prompt_tokens = static_cast<std::int64_t>(request_.prompt.size());
  }

  // Call once, before anything else. Errors: the engine refuses the first request.
  Status Start() {
    Request first = request_;
    if (forced_.after_reasoning) {
      first.sampling.stop_tokens.push_back(forced_.think_close);
      first.sampling.min_tokens = 0;  // min_tokens would keep the reasoning from ending
    } else if (forced_.openers.size() == 1) {
      first = LastRequest(choices_.front());
      first.n_choices = request_.n_choices;
      for (Choice& choice : choices_) {
        choice.phase = Phase::kWriting;
        choice.opening = forced_.openers.front().text;
      }
    } else {
      for (Choice& choice : choices_) {
        Open(choice);
      }
      // An error of the first request now is an error of the whole request.
      const std::optional<Request> refused = std::exchange(choices_.front().waiting, std::nullopt);
      if (refused) return MakeError(ErrorCode::kResourceExhausted, "the queue is full");
      if (!ready_.empty() && ready_.front().error) return Unexpected(*ready_.front().error);
      return {};
    }
    Result<std::unique_ptr<RunningRequest>> running = runner_.Submit(std::move(first));
    if (!running) return Unexpected(running.error());
    shared_ = *std::move(running);
    return {};
  }

  std::optional<bool> NextFor(Milliseconds timeout, StreamEvent& event) override {
    const Clock::time_point deadline = Clock::now() + std::min(timeout, kLongest);
    while (true) {
      if (ready_.empty()) Poll();
      if (!ready_.empty()) {
        event = std::move(ready_.front());
        ready_.pop_front();
        return true;
      }
      if (IsDone()) return false;
      const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
      if (left <= Milliseconds(0)) return std::nullopt;
      WaitFor(left);
    }
  }

  RequestStats stats() const override { return stats_; }

  void Cancel() override {
    is_cancelled_ = true;
    if (shared_ != nullptr) shared_->Cancel();
    for (Choice& choice : choices_) {
      if (choice.running != nullptr) choice.running->Cancel();
      if (std::exchange(choice.waiting, std::nullopt)) EndWith(choice, FinishReason::kCancelled);
    }
  }

 private:
  enum class Phase {
    kThinking,  // in the first request
    kChoosing,  // of the tool: a request for one token
    kWriting,   // in the last request
    kDone,
  };
  struct Choice {
    Choice(std::uint32_t number, const AnswerOptions& options, const RandomBits& random_bits)
        : index(number), reader(options, random_bits) {}

    const std::uint32_t index;
    Phase phase = Phase::kThinking;
    AnswerCollector reader;        // parses the reasoning, for calls that the model makes there
    std::vector<Token> generated;  // follows the prompt, before the opening
    std::vector<const ForcedCall::Opener*> openers;  // still possible
    std::size_t n_matched = 0;                       // chosen tokens of the openers
    std::string opening;                             // sent before the next event
    std::int64_t n_told = 0;                         // sent tokens
    std::unique_ptr<RunningRequest> running;         // for this choice alone
    std::optional<Request> waiting;                  // the engine has no room for it yet
  };

  bool IsDone() const {
    return shared_ == nullptr &&
           std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) {
             return choice.phase == Phase::kDone && choice.running == nullptr;
           });
  }

  // Reads until an event is ready, and no further: an unread stream slows its request down.
  void Poll() {
    while (ready_.empty() && Read(shared_, nullptr, Milliseconds(0))) {
    }
    for (Choice& choice : choices_) {
      if (choice.waiting) Submit(choice, *std::exchange(choice.waiting, std::nullopt));
      while (ready_.empty() && Read(choice.running, &choice, Milliseconds(0))) {
      }
    }
  }

  // Returns early when an event is ready; with several requests, soon after.
  void WaitFor(Milliseconds time) {
    std::size_t n_running = shared_ != nullptr ? 1 : 0;
    Choice* last = nullptr;
    bool is_waiting = false;
    for (Choice& choice : choices_) {
      is_waiting = is_waiting || choice.waiting;
      if (choice.running == nullptr) continue;
      ++n_running;
      last = &choice;
    }
    if (n_running != 1 || is_waiting) time = std::min(time, kSlice);
    if (last != nullptr) {
      Read(last->running, last, time);
    } else if (shared_ != nullptr) {
      Read(shared_, nullptr, time);
    } else {
      std::this_thread::sleep_for(time);
    }
  }

  // `choice`: the choice that the request belongs to; null: all choices. Returns false if there was
  // nothing to read.
  bool Read(std::unique_ptr<RunningRequest>& running, Choice* choice, Milliseconds timeout) {
    if (running == nullptr) return false;
    StreamEvent event;
    const std::optional<bool> next = running->NextFor(timeout, event);
    if (!next) return false;
    if (!std::exchange(knows_prompt_, true)) {
      // The opening is not part of the client's prompt.
      stats_.cached_tokens = std::min(running->stats().cached_tokens, stats_.prompt_tokens);
    }
    if (*next) {
      Choice& owner = choice != nullptr ? *choice : choices_[event.choice];
      OnEvent(owner, std::move(event));
      return true;
    }
    AddStats(running->stats());
    running.reset();
    // The request that chose the token ends before the next one begins.
    if (choice != nullptr && choice->phase == Phase::kChoosing) ChooseTool(*choice);
    return true;
  }

  void OnEvent(Choice& choice, StreamEvent event) {
    switch (choice.phase) {
      case Phase::kThinking:
        OnThought(choice, std::move(event));
        return;
      case Phase::kChoosing:
        OnChosen(choice, std::move(event));
        return;
      case Phase::kWriting:
        Tell(choice, std::move(event));
        return;
      case Phase::kDone:
        return;
    }
  }

  void OnThought(Choice& choice, StreamEvent event) {
    if (event.token != StreamEvent::kNoToken) choice.generated.push_back(event.token);
    choice.reader.Add(event);
    // The client's stop tokens end the answer; other stop tokens end only the reasoning.
    const std::vector<Token>& stops = answers_.stop_tokens;
    const bool is_closed = event.token == forced_.think_close;
    const bool ends_thinking =
        event.finish == FinishReason::kStop &&
        (is_closed || std::find(stops.begin(), stops.end(), event.token) == stops.end());
    const bool has_call =
        choice.reader.collected().answer.finish_reason == ChatFinishReason::kToolCalls;
    if (!ends_thinking || has_call) {
      Tell(choice, std::move(event));
      return;
    }
    event.finish.reset();
    if (is_closed) {
      event.text += kThinkCloseToken;  // a token that ends an answer has no text
    } else {
      choice.generated.back() = forced_.think_close;  // replaces the end of the answer
      choice.opening = kThinkCloseToken;
    }
    Tell(choice, std::move(event));
    Open(choice);
  }

  void OnChosen(Choice& choice, StreamEvent event) {
    const bool failed =
        event.finish == FinishReason::kError || event.finish == FinishReason::kCancelled;
    if (failed || event.token == StreamEvent::kNoToken) {
      EndWith(choice, event.finish.value_or(FinishReason::kError), std::move(event.error));
      return;
    }
    NarrowTo(choice, event.token);
  }

  // Begins the call; the tool is chosen first.
  void Open(Choice& choice) {
    for (const ForcedCall::Opener& opener : forced_.openers) {
      choice.openers.push_back(&opener);
    }
    if (request_.sampling.max_tokens && *request_.sampling.max_tokens <= choice.n_told) {
      EndWith(choice, FinishReason::kLength);
      return;
    }
    ChooseTool(choice);
  }

  // Follows the openers until they differ.
  void ChooseTool(Choice& choice) {
    std::vector<const ForcedCall::Opener*>& openers = choice.openers;
    for (; openers.size() > 1; ++choice.n_matched) {
      const auto exhausted = std::find_if(openers.begin(), openers.end(), [&](const auto* opener) {
        return IsExhausted(*opener, choice.n_matched);
      });
      if (exhausted != openers.end()) {
        openers = {*exhausted};
        break;
      }
      const Token first = NextToken(*openers.front(), choice.n_matched);
      const bool is_forced = std::all_of(openers.begin(), openers.end(), [&](const auto* opener) {
        return NextToken(*opener, choice.n_matched) == first;
      });
      if (!is_forced) {
        choice.phase = Phase::kChoosing;
        Submit(choice, OneTokenRequest(choice));
        return;
      }
    }
    choice.phase = Phase::kWriting;
    choice.opening += openers.front()->text;
    Submit(choice, LastRequest(choice));
  }

  // A token that no opener has selects the first opener.
  void NarrowTo(Choice& choice, Token token) {
    std::vector<const ForcedCall::Opener*>& openers = choice.openers;
    const auto goes_on = [&](const ForcedCall::Opener* opener, Token with) {
      return NextToken(*opener, choice.n_matched) == with;
    };
    const bool is_known = std::any_of(openers.begin(), openers.end(),
                                      [&](const auto* opener) { return goes_on(opener, token); });
    if (!is_known) token = NextToken(*openers.front(), choice.n_matched);
    std::erase_if(openers, [&](const auto* opener) { return !goes_on(opener, token); });
    ++choice.n_matched;
  }

  // The prompt and the tokens of the choice behind it.
  Request ContinuedRequest(const Choice& choice) const {
    Request request = request_;
    request.n_choices = 1;
    request.prompt.insert(request.prompt.end(), choice.generated.begin(), choice.generated.end());
    SamplingParameters& sampling = request.sampling;
    sampling.choice += choice.index;
    sampling.reasoning_budget.reset();  // the reasoning has ended
    // Stop strings apply to visible text; a call is not visible.
    sampling.stop_strings.clear();
    sampling.stop_strings_from.reset();
    sampling.stop_strings_until.reset();
    return request;
  }

  Request OneTokenRequest(const Choice& choice) const {
    Request request = ContinuedRequest(choice);
    const std::vector<Token>& opening = choice.openers.front()->tokens;
    request.prompt.insert(request.prompt.end(), opening.begin(),
                          opening.begin() + static_cast<std::ptrdiff_t>(choice.n_matched));
    SamplingParameters& sampling = request.sampling;
    sampling.max_tokens = 1;
    sampling.min_tokens = 0;
    sampling.ignore_eos = true;
    sampling.stop_tokens.clear();
    sampling.top_logprobs.reset();
    sampling.logit_bias.clear();
    for (const ForcedCall::Opener* opener : choice.openers) {
      sampling.logit_bias[NextToken(*opener, choice.n_matched)] = kOnlyThese;
    }
    return request;
  }

  Request LastRequest(const Choice& choice) const {
    Request request = ContinuedRequest(choice);
    const ForcedCall::Opener& opener =
        choice.openers.empty() ? forced_.openers.front() : *choice.openers.front();
    request.prompt.insert(request.prompt.end(), opener.tokens.begin(), opener.tokens.end());
    SamplingParameters& sampling = request.sampling;
    if (sampling.max_tokens) *sampling.max_tokens -= choice.n_told;
    sampling.min_tokens = std::max<std::int64_t>(sampling.min_tokens - choice.n_told, 0);
    return request;
  }

  void Submit(Choice& choice, Request request) {
    if (is_cancelled_) {
      EndWith(choice, FinishReason::kCancelled);
      return;
    }
    // The call, or one token behind its opening, does not fit.
    if (static_cast<std::int64_t>(request.prompt.size()) >= forced_.max_context) {
      EndWith(choice, FinishReason::kLength);
      return;
    }
    Result<std::unique_ptr<RunningRequest>> running = runner_.Submit(request);
    if (running) {
      choice.running = *std::move(running);
    } else if (running.error().code == ErrorCode::kResourceExhausted) {
      choice.waiting = std::move(request);
    } else {
      EndWith(choice, FinishReason::kError, running.error());
    }
  }

  void Tell(Choice& choice, StreamEvent event) {
    if (!choice.opening.empty() && choice.phase == Phase::kWriting) {
      ready_.push_back({.choice = choice.index,
                        .index = choice.n_told,
                        .text = std::exchange(choice.opening, "")});
    }
    event.choice = choice.index;
    event.index = choice.n_told;
    if (event.token != StreamEvent::kNoToken) {
      ++choice.n_told;
      ++stats_.generated_tokens;
    }
    if (event.finish) choice.phase = Phase::kDone;
    ready_.push_back(std::move(event));
  }

  void EndWith(Choice& choice, FinishReason finish, std::optional<Error> error = std::nullopt) {
    StreamEvent event = {.finish = finish};
    event.error = std::move(error);
    Tell(choice, std::move(event));
  }

  void AddStats(const RequestStats& stats) {
    stats_.drafted_tokens += stats.drafted_tokens;
    stats_.accepted_tokens += stats.accepted_tokens;
    stats_.preemptions += stats.preemptions;
    stats_.queue_seconds += stats.queue_seconds;
    stats_.prefill_seconds += stats.prefill_seconds;
    stats_.decode_seconds += stats.decode_seconds;
  }

  RequestRunner& runner_;
  const ForcedCall& forced_;
  const AnswerOptions& answers_;
  Request request_;
  std::unique_ptr<RunningRequest> shared_;  // for all choices
  std::vector<Choice> choices_;
  std::deque<StreamEvent> ready_;
  RequestStats stats_;  // ended requests, and the prompt
  bool knows_prompt_ = false;
  bool is_cancelled_ = false;
};

}  // namespace

Result<ForcedCall> MakeForcedCall(std::span<const ToolSpec> tools, bool after_reasoning,
                                  const Tokenizer& tokenizer, std::int64_t max_context) {
  const std::optional<Token> think_close = tokenizer.Find(kThinkCloseToken);
  if (!think_close) {
    return MakeError(ErrorCode::kUnsupported,
                     "tool_choice: this model has no token for the end of its reasoning");
  }
  ForcedCall forced = {.openers = {},
                       .after_reasoning = after_reasoning,
                       .think_close = *think_close,
                       .max_context = max_context};
  std::set<std::string_view> names;
  for (const ToolSpec& tool : tools) {
    if (!names.insert(tool.name).second) continue;
    const EncodedPrompt opener = RenderCallOpening(tool.name);
    Result<std::vector<Token>> tokens = EncodePrompt(tokenizer, opener);
    if (!tokens) return Unexpected(tokens.error());
    forced.openers.push_back({.text = opener.Text(), .tokens = *std::move(tokens)});
  }
  return forced;
}

Result<std::unique_ptr<RunningRequest>> SubmitForced(RequestRunner& runner, const ApiCall& call,
                                                     Request request) {
  if (!call.forced_call) return runner.Submit(std::move(request));
  auto forced = std::make_unique<ForcedRequest>(runner, call, std::move(request));
  const Status started = forced->Start();
  if (!started) return Unexpected(started.error());
  return forced;
}

}  // namespace fathom
