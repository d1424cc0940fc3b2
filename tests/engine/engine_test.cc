// The engine with its thread: streams that are read, left alone or given up, and its end.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/one_request.h"

namespace fathom::engine {
namespace {

using ::fathom::testing::Answer;
using ::fathom::testing::Expected;
using ::fathom::testing::FakeModel;
using ::fathom::testing::kLimits;
using ::fathom::testing::Letter;
using ::fathom::testing::MakePrompt;
using ::testing::HasSubstr;

class EngineTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> Start(EngineOptions options = {}, ModelLimits limits = kLimits) {
    model_.emplace(limits);
    auto engine = Engine::Create(*model_, std::move(options));
    EXPECT_TRUE(engine) << engine.error().message;
    return *std::move(engine);
  }

  std::optional<FakeModel> model_;
};

Answer ReadAll(TokenStream& stream) {
  Answer answer;
  for (StreamEvent event; stream.Next(event);) answer.Add(event);
  answer.stats = stream.stats();
  return answer;
}

TEST_F(EngineTest, AnswersAndEndsTheStream) {
  const auto engine = Start({.token_bytes = Letter});
  const Request request = {.prompt = MakePrompt(200), .sampling = {.seed = 5, .max_tokens = 100}};
  auto stream = engine->Submit(request);
  ASSERT_TRUE(stream);
  const Answer answer = ReadAll(*stream);
  EXPECT_EQ(answer.tokens, Expected(request).tokens);
  EXPECT_EQ(answer.stats.generated_tokens, 100);
  StreamEvent event;
  EXPECT_FALSE(stream->Next(event)) << "it stays ended";
  EXPECT_EQ(stream->NextFor(std::chrono::milliseconds(0), event), false);
  engine->Shutdown(ShutdownMode::kDrain);
  EXPECT_EQ(engine->metrics().Snapshot().finished, 1);
}

// Cached blocks of an engine that is gone would be nobody's, and in the way.
TEST_F(EngineTest, LeavesTheCachesOfItsModelEmpty) {
  const Request request = {.prompt = MakePrompt(300), .sampling = {.seed = 5, .max_tokens = 50}};
  auto engine = Start();
  for (int i = 0; i < 2; ++i) {
    auto stream = engine->Submit(request);
    ASSERT_TRUE(stream);
    EXPECT_EQ(ReadAll(*stream).tokens, Expected(request).tokens);
    EXPECT_GT(model_->cache().arena().in_use().history, 0);
    engine.reset();
    EXPECT_EQ(model_->cache().arena().in_use(), BlockCounts());
    engine = *Engine::Create(*model_, {});
  }
}

TEST_F(EngineTest, RunsItsStartOnTheThreadOfTheModel) {
  std::optional<std::thread::id> id;
  int n_starts = 0;
  {
    const auto engine = Start({.on_thread_start = [&] {
      id = std::this_thread::get_id();
      ++n_starts;
    }});
    auto stream = engine->Submit({.prompt = {1}, .sampling = {.seed = 1, .max_tokens = 1}});
    ReadAll(*stream);
  }
  EXPECT_EQ(n_starts, 1);
  ASSERT_TRUE(id);
  EXPECT_NE(*id, std::this_thread::get_id());
}

TEST_F(EngineTest, AReaderThatLeavesCancels) {
  const auto engine = Start();
  {
    auto stream = engine->Submit({.prompt = MakePrompt(5), .sampling = {.seed = 1}});
    ASSERT_TRUE(stream);
    StreamEvent event;
    ASSERT_TRUE(stream->Next(event));
  }
  engine->Shutdown(ShutdownMode::kDrain);
  EXPECT_EQ(engine->metrics().Snapshot().cancelled, 1);
}

// The queue of 4 events is full after as many tokens; nothing is lost, and nobody else waits.
TEST_F(EngineTest, ASlowReaderKeepsItsTokens) {
  const auto engine = Start({.stream_events = 4});
  const Request slow = {.prompt = MakePrompt(20), .sampling = {.seed = 2, .max_tokens = 60}};
  auto waiting = engine->Submit(slow);
  ASSERT_TRUE(waiting);
  const Request other = {.prompt = MakePrompt(30), .sampling = {.seed = 3, .max_tokens = 60}};
  auto stream = engine->Submit(other);
  ASSERT_TRUE(stream);
  EXPECT_EQ(ReadAll(*stream).tokens, Expected(other).tokens);
  EXPECT_EQ(ReadAll(*waiting).tokens, Expected(slow).tokens);
}

TEST_F(EngineTest, ShutdownDrainsOrStops) {
  const Request request = {.prompt = MakePrompt(20), .sampling = {.seed = 2, .max_tokens = 40}};
  for (const ShutdownMode mode : {ShutdownMode::kDrain, ShutdownMode::kStop}) {
    const auto engine = Start();
    std::vector<TokenStream> streams;
    for (int i = 0; i < 5; ++i) {
      streams.push_back(*engine->Submit(request));
    }
    engine->Shutdown(mode);
    engine->Shutdown(mode);
    const auto late = engine->Submit(request);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
    for (TokenStream& stream : streams) {
      const Answer answer = ReadAll(stream);
      EXPECT_EQ(answer.n_finished, 1);
      if (mode == ShutdownMode::kDrain) {
        EXPECT_EQ(answer.tokens, Expected(request).tokens);
      }
    }
  }
}

TEST_F(EngineTest, AFullQueueIsAnError) {
  const auto engine = Start({.max_waiting = 1, .stream_events = 1});
  std::vector<TokenStream> streams;  // unread: no stream ends
  for (int i = 0; i < 3; ++i) {
    auto stream = engine->Submit({.prompt = MakePrompt(5), .sampling = {.seed = 1}});
    ASSERT_TRUE(stream);
    streams.push_back(*std::move(stream));
  }
  const auto refused = engine->Submit({.prompt = MakePrompt(5), .sampling = {.seed = 1}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("at most 3 requests at a time, found 3"));
  EXPECT_EQ(engine->metrics().Snapshot().refused, 1);
}

TEST_F(EngineTest, WithoutMemoryAllEndWithAnError) {
  std::promise<Error> failure;
  std::promise<void> all_submitted;
  const auto engine = Start({.on_failure = [&](const Error& error) { failure.set_value(error); },
                             .on_thread_start = [&] { all_submitted.get_future().wait(); }});
  model_->throw_at_forward = 3;
  std::vector<TokenStream> streams;
  for (std::int64_t i = 0; i < kLimits.max_sequences + 2; ++i) {  // some run, some wait
    auto stream = engine->Submit({.prompt = MakePrompt(5), .sampling = {.seed = 1}});
    ASSERT_TRUE(stream);
    streams.push_back(*std::move(stream));
  }
  all_submitted.set_value();
  for (TokenStream& stream : streams) {
    std::optional<Error> error;
    for (StreamEvent event; stream.Next(event);) error = event.error;
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ErrorCode::kUnavailable);
    EXPECT_THAT(error->message, HasSubstr("out of memory"));
  }
  EXPECT_EQ(failure.get_future().get().code, ErrorCode::kOutOfMemory);
  const auto refused = engine->Submit({.prompt = {1}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

// The weights are not what they were, or the ranks are gone.
TEST_F(EngineTest, AModelThatCanComputeNoMoreEndsAll) {
  for (const ErrorCode code : {ErrorCode::kInvalidData, ErrorCode::kUnavailable}) {
    FakeModel model(kLimits);
    model.fail_at_forward = 3;
    model.fail_code = code;
    std::promise<Error> failure;
    std::promise<void> all_submitted;
    const std::unique_ptr<Engine> engine =
        Engine::Create(model, {.on_failure = [&](const Error& error) { failure.set_value(error); },
                               .on_thread_start = [&] { all_submitted.get_future().wait(); }})
            .value();
    std::vector<TokenStream> streams;
    for (std::int64_t i = 0; i < kLimits.max_sequences + 2; ++i) {  // some run, some wait
      streams.push_back(engine->Submit({.prompt = MakePrompt(5), .sampling = {.seed = 1}}).value());
    }
    all_submitted.set_value();
    for (TokenStream& stream : streams) {
      std::optional<Error> error;
      for (StreamEvent event; stream.Next(event);) error = event.error;
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code, ErrorCode::kUnavailable);
      EXPECT_THAT(error->message, HasSubstr("the fake model fails as told"));
    }
    EXPECT_EQ(failure.get_future().get().code, code);
    EXPECT_EQ(engine->Submit({.prompt = {1}}).error().code, ErrorCode::kUnavailable);
  }
}

TEST_F(EngineTest, DraftsNeedAHead) {
  FakeModel model(kLimits);
  const auto engine = Engine::Create(model, {.draft = {.enabled = true}});
  ASSERT_FALSE(engine);
  EXPECT_THAT(engine.error().message, HasSubstr("without a draft head"));
}

}  // namespace
}  // namespace fathom::engine
