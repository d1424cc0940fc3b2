// No memory is allocated per token: the engine allocates per request and per block of 128 tokens
// (and, where they are asked for, the log probabilities that a reader takes away), a step of the
// model itself, on the CPU backend, nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "engine/engine_core.h"
#include "kernels/registry.h"
#include "model/model.h"
#include "tests/testing/shared_data.h"

namespace {
std::atomic<std::int64_t> n_allocations = 0;
}  // namespace

// Replaced for the whole test program: all plain forms, so that each can free what another
// allocates. Not inlined: the compiler would warn of free() for memory of a visible `new`.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++n_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace fathom::engine {
namespace {

// Returns how many of the steps that decode the last 300 of 310 tokens allocate.
int StepsThatAllocate(const SamplingParameters& parameters, bool drafts) {
  const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(std::nullopt, 2);
  EXPECT_TRUE(backend) << backend.error().message;
  const auto model = Model::Load(
      testing::ProjectPath("models/fairy"), **backend,
      {.max_context = 400, .max_batch_tokens = 64, .max_logit_rows = 5, .with_draft = drafts});
  EXPECT_TRUE(model) << model.error().message;
  EngineMetrics metrics;
  const auto core =
      EngineCore::Create(**model,
                         {.token_bytes = [](Token) { return std::string_view("word "); },
                          .draft = {.enabled = drafts, .depth = drafts ? 2 : 0}},
                         metrics);
  EXPECT_TRUE(core) << core.error().message;
  Request request = {.prompt = std::vector<Token>(40, 3), .sampling = parameters};
  request.sampling.max_tokens = 310;
  auto state = (*core)->Prepare(std::move(request), std::make_shared<Waker>());
  EXPECT_TRUE(state) << state.error().message;
  TokenStream stream((*state)->stream);
  (*core)->Add(*std::move(state));
  StreamEvent event;
  std::int64_t n_tokens = 0;
  int n_allocating = 0;
  while (true) {
    const std::int64_t before = n_allocations;
    const StepOutcome outcome = (*core)->Step();
    const bool allocated = n_allocations != before;
    if (outcome != StepOutcome::kRan) break;
    n_allocating += allocated && n_tokens >= 10 ? 1 : 0;
    while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
      ++n_tokens;
    }
  }
  EXPECT_EQ(n_tokens, 310);
  return n_allocating;
}

// A step allocates where a block of 128 tokens ends (its key, and in the next step its place in the
// prefix cache), where the list of tokens doubles, and at the end of the request: of 350 tokens 2
// blocks end, and 50 tokens double 3 times.
TEST(Allocation, StepsAllocateByTheBlock) {
  const SamplingParameters everything{.top_p = 0.9,
                                      .top_k = 500,
                                      .min_p = 0.01,
                                      .repetition_penalty = 1.1,
                                      .presence_penalty = 0.5,
                                      .frequency_penalty = 0.5,
                                      .logit_bias = {{3, -5.0}},
                                      .seed = 1,
                                      .stop_strings = {"this does not occur"}};
  EXPECT_LE(StepsThatAllocate({.temperature = 0}, /*drafts=*/false), 2 * 2 + 3 + 1);
  EXPECT_LE(StepsThatAllocate(everything, /*drafts=*/false), 2 * 2 + 3 + 1);
  EXPECT_LE(StepsThatAllocate(everything, /*drafts=*/true), 2 * 2 + 3 + 1);
}

// Two sequences, so that a step is more than one row, through 300 positions: window, compressed
// rows and more rows than the indexer selects.
TEST(Allocation, NoneInASteadyStepOfTheModel) {
  const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(std::nullopt, 2);
  ASSERT_TRUE(backend) << backend.error().message;
  const auto model = Model::Load(
      testing::ProjectPath("models/fairy"), **backend,
      {.max_sequences = 2, .max_context = 300, .max_batch_tokens = 64, .with_draft = true});
  ASSERT_TRUE(model) << model.error().message;
  Batch batch;
  batch.Reserve(2, 2);
  const std::vector<std::int32_t> rows = {0, 1};
  const std::vector<DraftRequest> requests = {{.row = 0, .n_drafts = 1}, {.row = 1, .n_drafts = 1}};
  std::int64_t n_rows = 0;  // of the drafter's logits
  const auto choose = [&n_rows](const DraftLogits& found, std::span<Token> /*tokens*/) {
    n_rows = found.logits.rows;
    return Status();
  };
  const auto step = [&](std::int32_t position) {
    const Token token = 3 + position;
    batch.Clear();
    batch.Add(0, position, {&token, 1});
    batch.Add(1, position, {&token, 1});
    bool ran = (*model)->Forward(batch).has_value();
    ran = ran && (*model)->Logits(rows)->rows == 2;
    ran = ran && (*model)->drafter()->Commit(batch, rows, StreamSource::kForward).has_value();
    ran = ran && (*model)->drafter()->Propose(requests, {}, choose).has_value();
    return ran && n_rows == 2;
  };
  ASSERT_TRUE(step(0));
  const std::int64_t before = n_allocations;
  bool ran = true;
  for (std::int32_t position = 1; position < 300; ++position) {
    ran = step(position) && ran;
  }
  EXPECT_EQ(n_allocations - before, 0);
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace fathom::engine
