// FakeRunner: a thread that plays the engine. Each request is answered with the last token of its
// prompt, several times.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "api/common/request_runner.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::testing {

struct FakeRunnerOptions {
  int max_open = 16;  // requests that are not at their end; more are refused
  int tokens_per_answer = 2;
  std::optional<Token> refuse_token;   // a prompt that ends with it is an error of Submit
  std::optional<Token> fail_token;     // ... of the answer
  std::optional<int> shut_down_after;  // requests; the others are cancelled or refused
};

class FakeRunner final : public RequestRunner {
 public:
  explicit FakeRunner(FakeRunnerOptions options)
      : options_(options),
        tokenizer_(*Tokenizer::Load(ProjectPath("models/fairy"))),
        thread_([this](std::stop_token stop) { Work(stop); }) {}

  ~FakeRunner() override {
    thread_.request_stop();
    work_.notify_all();
  }

  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override {
    const std::lock_guard lock(mutex_);
    if (request.prompt.back() == options_.refuse_token) {
      return MakeError(ErrorCode::kInvalidArgument, "prompt: expected another");
    }
    if (IsShutDown()) return MakeError(ErrorCode::kUnavailable, "shutting down");
    if (n_open_ >= options_.max_open) {
      ++n_refused_;
      is_full_ = true;
      work_.notify_all();
      return MakeError(ErrorCode::kResourceExhausted, "the queue is full");
    }
    most_open_ = std::max(most_open_, ++n_open_);
    ++n_submitted_;
    auto state = std::make_shared<State>();
    state->request = std::move(request);
    waiting_.push_back(state);
    work_.notify_all();
    return std::make_unique<Stream>(*this, std::move(state));
  }

  int most_open() const { return Locked(most_open_); }
  int n_refused() const { return Locked(n_refused_); }

 private:
  struct State {
    Request request;
    std::deque<StreamEvent> events;
    bool is_complete = false;
    std::int64_t n_generated = 0;
  };

  class Stream final : public RunningRequest {
   public:
    Stream(FakeRunner& runner, std::shared_ptr<State> state)
        : runner_(runner), state_(std::move(state)) {}
    ~Stream() override {
      const std::lock_guard lock(runner_.mutex_);
      --runner_.n_open_;
    }

    std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) override {
      std::unique_lock lock(runner_.mutex_);
      const auto ready = [this] { return !state_->events.empty() || state_->is_complete; };
      if (!runner_.news_.wait_for(lock, timeout, ready)) return std::nullopt;
      if (state_->events.empty()) return false;
      event = std::move(state_->events.front());
      state_->events.pop_front();
      return true;
    }

    RequestStats stats() const override {
      const std::lock_guard lock(runner_.mutex_);
      return {.prompt_tokens = static_cast<std::int64_t>(state_->request.prompt.size()),
              .generated_tokens = state_->n_generated};
    }

   private:
    FakeRunner& runner_;
    std::shared_ptr<State> state_;
  };

  int Locked(const int& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  bool IsShutDown() const {
    return options_.shut_down_after && n_submitted_ >= *options_.shut_down_after;
  }

  void Work(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (work_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      // Not before a request was refused, or no more come: that many run at once every time.
      work_.wait_for(lock, stop, std::chrono::milliseconds(50), [this] { return is_full_; });
      // The newest first: what is submitted later may end earlier.
      const std::shared_ptr<State> state = waiting_.back();
      waiting_.pop_back();
      is_full_ = is_full_ && !waiting_.empty();
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      Answer(*state);
      news_.notify_all();
    }
  }

  void Answer(State& state) {
    const Token token = state.request.prompt.back();
    for (int choice = 0; choice < state.request.n_choices; ++choice) {
      for (int i = 0; i < options_.tokens_per_answer; ++i) {
        StreamEvent event = {.choice = static_cast<std::uint32_t>(choice),
                             .token = token,
                             .index = i,
                             .text = std::string(tokenizer_.TokenBytes(token))};
        if (i + 1 == options_.tokens_per_answer) event.finish = FinishReason::kLength;
        if (event.finish && token == options_.fail_token) event.finish = FinishReason::kError;
        if (event.finish && IsShutDown()) event.finish = FinishReason::kCancelled;
        state.events.push_back(std::move(event));
        ++state.n_generated;
      }
    }
    state.is_complete = true;
  }

  const FakeRunnerOptions options_;
  const Tokenizer tokenizer_;
  mutable std::mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable news_;
  std::vector<std::shared_ptr<State>> waiting_;
  int n_open_ = 0;
  int most_open_ = 0;
  int n_refused_ = 0;
  int n_submitted_ = 0;
  bool is_full_ = false;  // refused one, and has not answered all since
  std::jthread thread_;   // last: it uses all the others
};

}  // namespace fathom::testing
