// No memory is allocated per token: an answer of 150 tokens allocates as often as one of 10.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/generator.h"
#include "tests/engine/fake_model.h"

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

}  // namespace
}  // namespace fathom
