// No memory is allocated per token: an answer of 150 tokens allocates as often as one of 10, and a
// step of the model itself, on the CPU backend, not at all.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "engine/generator.h"
#include "kernels/registry.h"
#include "model/model.h"
#include "tests/engine/fake_model.h"
#include "tests/testing/shared_data.h"

namespace {
std::atomic<std::int64_t> n_allocations = 0;
}  // namespace

// Replaced for the whole test program: all plain forms, so that what one allocates another may
// free. Not inlined: the compiler would warn of free() for memory of a `new` it sees.
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

namespace fathom {
namespace {

std::int64_t AllocationsOf(Generator& generator, SamplingParameters parameters,
                           std::int64_t max_tokens) {
  parameters.max_tokens = max_tokens;
  const std::vector<Token> prompt(40, 3);
  const std::int64_t before = n_allocations;
  const auto result = generator.Generate(prompt, parameters);
  const std::int64_t after = n_allocations;
  EXPECT_TRUE(result);
  EXPECT_EQ(static_cast<std::int64_t>(result->tokens.size()), max_tokens);
  return after - before;
}

TEST(Allocation, NonePerToken) {
  testing::FakeModel model({.vocab_size = 1000, .max_context = 200, .max_batch_tokens = 16});
  Generator generator(model, {.token_bytes = [](Token) { return std::string_view("word "); }});
  SamplingParameters everything{.top_p = 0.9,
                                .top_k = 500,
                                .min_p = 0.01,
                                .repetition_penalty = 1.1,
                                .presence_penalty = 0.5,
                                .frequency_penalty = 0.5,
                                .logit_bias = {{3, -5.0}},
                                .top_logprobs = 20,
                                .seed = 1,
                                .stop_strings = {"this does not occur"}};
  for (const SamplingParameters& parameters :
       {SamplingParameters{.seed = 1}, SamplingParameters{.temperature = 0}, everything}) {
    AllocationsOf(generator, parameters, 10);  // the copy of the parameters finds its memory
    const std::int64_t of_short = AllocationsOf(generator, parameters, 10);
    const std::int64_t of_long = AllocationsOf(generator, parameters, 150);
    EXPECT_EQ(of_short, of_long);
  }
}

// Two sequences, so that a step is more than one row, through 300 positions: window, compressed
// rows and more of them than the indexer selects.
TEST(Allocation, NoneInASteadyStepOfTheModel) {
  const Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(std::nullopt, 2);
  ASSERT_TRUE(backend) << backend.error().message;
  const auto model = Model::Load(
      testing::ProjectPath("models/fairy"), **backend,
      {.max_sequences = 2, .max_context = 300, .max_batch_tokens = 64, .with_mtp = true});
  ASSERT_TRUE(model) << model.error().message;
  Batch batch;
  batch.Reserve(2, 2);
  const std::vector<std::int32_t> rows = {0, 1};
  const auto step = [&](std::int32_t position) {
    const Token token = 3 + position;
    batch.Clear();
    batch.Add(0, position, {&token, 1});
    batch.Add(1, position, {&token, 1});
    bool ran = (*model)->Forward(batch).has_value();
    ran = ran && (*model)->Logits(rows).rows == 2;
    ran = ran && (*model)->ForwardMtp(batch, rows).has_value();
    return ran && (*model)->MtpLogits(rows).rows == 2;
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
}  // namespace fathom
