// ForcedRequest: runs the requests of a forced call (forced_call.h) as one.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "api/common/answer_collector.h"
#include "api/common/api_call.h"
#include "api/common/forced_call.h"
#include "api/common/request_runner.h"

namespace fathom {

// Used by one thread. The destructor cancels running requests.
class ForcedRequest final : public RunningRequest {
 public:
  // call.forced_call is set; `runner` and `call` must outlive it.
  ForcedRequest(RequestRunner& runner, const ApiCall& call, Request request);

  // Call once, before anything else. Errors: the engine refuses the first request.
  Status Start();

  std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) override;
  RequestStats stats() const override;
  void Cancel() override;

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

  bool IsDone() const;
  void Poll();
  void WaitFor(std::chrono::milliseconds time);
  // `choice`: the choice that the request belongs to; null: all choices. Returns false if there was
  // nothing to read.
  bool Read(std::unique_ptr<RunningRequest>& running, Choice* choice,
            std::chrono::milliseconds timeout);
  void OnEvent(Choice& choice, StreamEvent event);
  void OnThought(Choice& choice, StreamEvent event);
  void OnChosen(Choice& choice, StreamEvent event);
  void Open(Choice& choice);
  void ChooseTool(Choice& choice);
  void NarrowTo(Choice& choice, Token token);
  Request OneTokenRequest(const Choice& choice) const;
  Request LastRequest(const Choice& choice) const;
  Request ContinuedRequest(const Choice& choice) const;
  void Submit(Choice& choice, Request request);
  void Tell(Choice& choice, StreamEvent event);
  void EndWith(Choice& choice, FinishReason finish, std::optional<Error> error = std::nullopt);
  void AddStats(const RequestStats& stats);

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

}  // namespace fathom
