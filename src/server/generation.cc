#include "server/generation.h"

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/common/answer_format.h"
#include "api/common/generated_turn_store.h"

namespace fathom::server {
namespace {

using Clock = std::chrono::steady_clock;

// The longest wait for one request of a call that has several.
constexpr auto kTurn = std::chrono::milliseconds(2);
// Events that are ready are sent in one write, up to this size and this number for each request:
// events that print nothing must not keep the loop from its other work.
constexpr std::size_t kWriteBytes = std::size_t{32} << 10;
constexpr int kWriteEvents = 256;
constexpr int kClientClosedRequest = 499;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Answers one call.
class Run {
 public:
  Run(const ApiCall& call, const ApiModel& model, const GenerationOptions& options,
      const GenerationClient& client)
      : call_(call),
        options_(options),
        exchange_(client.exchange),
        record_(&client.record),
        entry_(client.entry),
        answer_(std::make_unique<ApiAnswer>(
            call, model, static_cast<std::int64_t>(std::time(nullptr)), options.random_bits)),
        format_(call.api->make_format()) {}

  // Submits all requests. Returns false if the client has received an error instead.
  bool Submit(RequestRunner& runner) {
    if (call_.refusal) {
      SendError(*call_.refusal);
      return false;
    }
    for (const Request& request : call_.requests) {
      Result<std::unique_ptr<RunningRequest>> running = runner.Submit(request);
      if (!running) {
        SendError(ToApiError(running.error()));
        return false;
      }
      running_.push_back(*std::move(running));
    }
    n_open_ = running_.size();
    CountTokens();
    return true;
  }

  // Sends events until all requests have ended or the client is gone.
  void Follow() {
    while (n_open_ > 0 && !failed_) {
      has_written_ = false;
      TakeEvents();
      if (!failed_) ShowLife();
      if (failed_) break;
      if (!has_written_ && exchange_.ClientIsGone()) {
        Abandon();
      } else if (options_.time_limit && Clock::now() - start_ > *options_.time_limit) {
        EndWith(MakeApiError(504, "timeout", "the answer took longer than the server allows"));
      } else if (entry_.is_aborted()) {  // clients do not repeat a request after this status
        EndWith(MakeApiError(403, "aborted",
                             "the request was ended by those who run the server (POST /abort)"));
      }
    }
  }

  void Finish() {
    record_->usage = answer_->usage();
    record_->times = answer_->times();
    for (const AnswerCollector& choice : answer_->choices()) {
      record_->turn_stops += choice.collected().ends_at_turn ? 1 : 0;
      record_->longest_choice = std::max(record_->longest_choice, choice.collected().tokens.size());
    }
    if (failed_) {
      record_->finish = "cancelled";
      return;
    }
    const std::optional<ApiError> error = answer_->error();
    if (error) {
      SendError(*error);
      record_->finish = "error";
      return;
    }
    // Stores before it sends the end of the answer: the client may send its next request
    // immediately.
    RememberTurns(*answer_);
    if (call_.api->store != nullptr) call_.api->store(*answer_);
    record_->finish =
        answer_->choices().empty()
            ? "load"
            : ChatFinishReasonName(answer_->choices()[0].collected().answer.finish_reason);
    if (call_.stream) {
      format_->End(*answer_, &pending_);
      Write();
    } else {
      exchange_.Send({.body = format_->Whole(*answer_)});
    }
  }

 private:
  // Sends all events that are ready in one write; waits for the first open request.
  void TakeEvents() {
    bool has_taken = false;
    std::chrono::milliseconds patience = Patience();
    for (std::size_t i = 0; i < running_.size() && !failed_; ++i) {
      for (int n = 0; n < kWriteEvents && running_[i] && pending_.size() < kWriteBytes; ++n) {
        const std::optional<bool> next = running_[i]->NextFor(patience, event_);
        patience = std::chrono::milliseconds(0);
        if (!next) break;
        has_taken = true;
        *next ? Take(i) : End(i);
      }
    }
    if (!has_taken) return;
    CountTokens();
    Write();
  }

  // Returns the longest wait for an event, so that the next sign of life is not late.
  std::chrono::milliseconds Patience() const {
    const std::chrono::milliseconds patience = n_open_ > 1 ? kTurn : options_.watch;
    if (!call_.stream) return patience;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        last_write_ + options_.keep_alive - Clock::now());
    return std::clamp(left, std::chrono::milliseconds(0), patience);
  }

  void CountTokens() { entry_.SetTokens(answer_->n_prompt(), answer_->usage().completion_tokens); }

  void Take(std::size_t i) {
    if (!has_first_) {
      has_first_ = true;
      record_->first_token_seconds = SecondsSince(start_);
    }
    if (!answer_->HasStarted(i)) answer_->Start(i, running_[i]->stats());
    // Nothing more is sent after an error; Finish sends the error.
    if (event_.error || event_.finish == FinishReason::kCancelled) has_error_ = true;
    if (call_.stream && !has_error_ && !has_begun_) Begin();
    const AnswerPiece piece = answer_->Add(i, event_);
    if (call_.stream && !has_error_) format_->Add(*answer_, piece, &pending_);
    if (answer_->WantsNoMore(i)) running_[i]->Cancel();
  }

  void End(std::size_t i) {
    answer_->End(i, running_[i]->stats());
    running_[i].reset();
    --n_open_;
  }

  void Begin() {
    has_begun_ = true;
    format_->Begin(*answer_, &pending_);
  }

  // Measures the time from the last written byte, because events may print nothing. A stream that
  // waits for its first event begins after `watch`. So an answer that is ready sooner begins with
  // its first token in one write, and an error that occurs sooner keeps its status.
  void ShowLife() {
    if (!call_.stream || has_error_) return;
    const Clock::time_point now = Clock::now();
    if (!has_begun_ && format_->BeginsInQueue()) {
      if (now - start_ >= std::min(options_.watch, options_.keep_alive)) Begin();
    } else if (now - last_write_ >= options_.keep_alive) {
      format_->SignOfLife(&pending_);
    }
    Write();
  }

  void EndWith(const ApiError& error) {
    SendError(error);
    Abandon();
  }

  // The client is gone: cancels the running requests.
  void Abandon() {
    failed_ = true;
    running_.clear();
    if (record_->status == 0) record_->status = kClientClosedRequest;
  }

  void Write() {
    if (pending_.empty() || failed_) return;
    const bool is_sent = is_streaming_ ? exchange_.Write(pending_) : StartStream();
    has_written_ = true;
    last_write_ = Clock::now();
    pending_.clear();
    if (!is_sent) Abandon();
  }

  bool StartStream() {
    is_streaming_ = true;
    return exchange_.StartStream(
        {.content_type = std::string(format_->ContentType()),
         .fields = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
         .body = pending_});
  }

  void SendError(ApiError error) {
    error.request_id = record_->id;
    record_->SetError(error);
    if (is_streaming_ || call_.refusal) {
      format_->Fail(*answer_, error, &pending_);
      Write();
    } else {
      exchange_.Send(ErrorResponse(*call_.api, error));
    }
  }

  const ApiCall& call_;
  const GenerationOptions& options_;
  HttpExchange& exchange_;
  ServedRequest* const record_;
  GenerationTable::Entry& entry_;
  std::unique_ptr<ApiAnswer> answer_;
  const std::unique_ptr<AnswerFormat> format_;
  std::vector<std::unique_ptr<RunningRequest>> running_;  // null: the request has ended
  std::size_t n_open_ = 0;
  StreamEvent event_;
  std::string pending_;       // sent to the client with the next write
  bool has_written_ = false;  // since the last check for a gone client; writing checks, too
  bool is_streaming_ = false;
  bool has_begun_ = false;
  bool has_first_ = false;
  bool has_error_ = false;
  bool failed_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_write_ = start_;
};

}  // namespace

void Generate(const ApiCall& call, const ApiModel& model, RequestRunner& runner,
              const GenerationOptions& options, const GenerationClient& client) {
  client.record.generates = true;
  client.record.stream = call.stream;
  client.record.model = model.name;
  client.record.n_replayed = call.n_replayed;
  client.record.relaxed = call.relaxed;
  client.record.has_constraint =
      !call.requests.empty() && call.requests.front().sampling.constraint != nullptr;
  client.record.compile_seconds = call.compile_seconds;
  Run run(call, model, options, client);
  if (!run.Submit(runner)) return;
  run.Follow();
  run.Finish();
}

HttpResponse ErrorResponse(const Api& api, const ApiError& error) {
  ApiReply reply = api.error(error);
  HttpResponse response = {.status = reply.status, .body = std::move(reply.body)};
  constexpr int kTooManyRequests = 429;
  constexpr int kServiceUnavailable = 503;
  if (error.status == kTooManyRequests || error.status == kServiceUnavailable) {
    response.fields.emplace_back("Retry-After", "1");
  }
  return response;
}

}  // namespace fathom::server
