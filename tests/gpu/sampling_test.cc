// Tokens that an emulated GPU chooses are those that the engine's sampler chooses on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "kernels/gpu/gpu_backend.h"
#include "tests/emulator/emulator_driver.h"

namespace fathom::testing {
namespace {

using emulator::Visiting;

constexpr std::int64_t kRowsOfCall = 32;

// Rows for each emulated GPU; FATHOM_SAMPLING_ROWS=100000 takes minutes.
std::int64_t RowsToTest() {
  const char* const wanted = std::getenv("FATHOM_SAMPLING_ROWS");
  return wanted == nullptr ? 3000 : std::atoll(wanted);
}

class RandomValues {
 public:
  explicit RandomValues(std::uint32_t seed) : random_(seed) {}

  std::int64_t Integer(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random_);
  }
  bool OneIn(std::int64_t n) { return Integer(1, n) == 1; }
  template <class T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Integer(0, std::ssize(values) - 1)];
  }
  float Normal() { return std::normal_distribution<float>()(random_); }
  std::uint64_t Bits() { return std::uint64_t{random_()} << 32 | random_(); }
  std::vector<Token> Tokens(std::int64_t n, std::int64_t vocabulary) {
    std::vector<Token> tokens;
    for (std::int64_t i = 0; i < n; ++i) {
      tokens.push_back(static_cast<Token>(Integer(0, vocabulary - 1)));
    }
    return tokens;
  }

 private:
  std::mt19937 random_;
};

// Returns logits of every kind: ties, zeros of both signs, subnormal and huge numbers; now and then
// one that is not finite.
std::vector<float> RandomLogits(RandomValues& random, std::int64_t vocabulary) {
  const float scale = random.OneOf({0.0f, 1e-44f, 1e-3f, 1.0f, 3.0f, 8.0f, 30.0f, 1e30f});
  const float step = random.OneOf({0.0f, 0.0f, 0.25f, 1.0f});  // of numbers that make ties
  std::vector<float> logits;
  for (std::int64_t i = 0; i < vocabulary; ++i) {
    float logit = scale * random.Normal();
    if (step > 0 && scale < 1e30f) logit = step * std::round(logit / step);
    logits.push_back(random.OneIn(50) ? random.OneOf({0.0f, -0.0f}) : logit);
  }
  if (random.OneIn(40)) {
    logits[static_cast<std::size_t>(random.Integer(0, vocabulary - 1))] =
        random.OneOf({-std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::infinity(), std::nanf("")});
  }
  if (random.OneIn(40)) {
    logits[static_cast<std::size_t>(random.Integer(0, vocabulary - 1))] =
        random.OneOf({-1.0f, 1.0f}) * std::numeric_limits<float>::max();
  }
  return logits;
}

SamplingParameters RandomParameters(RandomValues& random, std::int64_t vocabulary) {
  SamplingParameters p;
  p.temperature = random.OneOf({0.0, 1e-5, 1e-3, 0.3, 0.7, 1.0, 1.0, 1.5, 2.0});
  if (random.OneIn(2)) {
    p.top_p = random.OneOf({0.0, 1e-12, 0.1, 0.5, 0.9, 0.95, 0.999999, 1 - 0x1p-53});
  }
  if (random.OneIn(2)) {
    p.top_k =
        std::min(random.OneOf<std::int64_t>({1, 2, 7, 40, vocabulary - 1, vocabulary}), vocabulary);
  }
  if (random.OneIn(3)) p.min_p = random.OneOf({5e-324, 1e-30, 0.01, 0.3, 1.0});
  if (random.OneIn(3)) p.repetition_penalty = random.OneOf({0.01, 0.9, 1.1, 2.0, 100.0});
  if (random.OneIn(3)) p.presence_penalty = random.OneOf({-2.0, -0.3, 0.5, 2.0});
  if (random.OneIn(3)) p.frequency_penalty = random.OneOf({-2.0, -0.7, 0.1, 2.0});
  if (random.OneIn(3)) {
    for (const Token token : random.Tokens(random.Integer(1, 10), vocabulary)) {
      p.logit_bias[token] = random.OneOf({-1e9, -100.0, -1.0, 0.0, 0.7, 3.0, 100.0, 1e9});
    }
  }
  p.min_tokens = random.OneOf<std::int64_t>({0, 0, 0, 3, 20});
  p.stop_tokens = random.Tokens(random.Integer(0, 3), vocabulary);
  p.choice = static_cast<std::uint32_t>(random.Integer(0, 3));
  if (random.OneIn(20)) {
    p.reasoning_budget = TokenBudget{random.Integer(0, 30), random.Tokens(1, vocabulary)[0]};
  }
  return p;
}

// A row of logits, and the state of its sequence: before its drafts, and with them.
struct TestRow {
  TestRow(RandomValues& random, std::int64_t vocabulary)
      : logits(RandomLogits(random, vocabulary)), state(vocabulary), drafted(vocabulary) {
    const SamplingParameters parameters = RandomParameters(random, vocabulary);
    const std::vector<Token> prompt = random.Tokens(random.Integer(1, 30), vocabulary);
    const std::vector<Token> output = random.Tokens(random.Integer(0, 30), vocabulary);
    const std::vector<Token> eos = random.Tokens(random.Integer(0, 2), vocabulary);
    const std::uint64_t seed = random.Bits();
    drafts = random.Tokens(random.Integer(0, 3), vocabulary);
    position = std::ssize(prompt) + std::ssize(output) + std::ssize(drafts);
    for (SamplerState* some : {&state, &drafted}) {
      some->Begin(parameters, seed, prompt, eos);
      std::ranges::for_each(output, [&](Token token) { some->Accept(token); });
    }
    std::ranges::for_each(drafts, [&](Token token) { drafted.Accept(token); });
  }

  std::vector<float> logits;
  SamplerState state;
  SamplerState drafted;
  std::vector<Token> drafts;
  std::int64_t position = 0;
  std::vector<TokenCount> counts;
};

std::string Describe(const Result<Token>& token) {
  return token ? std::to_string(*token) : token.error().message;
}

// One emulated GPU.
class SamplingGpu {
 public:
  explicit SamplingGpu(const EmulatorOptions& options)
      : backend_(*GpuBackend::Make(MakeEmulatorDriver(options))) {}

  void Reserve(std::int64_t vocabulary) {
    ASSERT_TRUE(backend_->Reserve(
        {.max_tokens = 1, .max_logit_rows = kRowsOfCall, .vocabulary = vocabulary}));
    logits_ = *backend_->Allocate(
        kRowsOfCall * vocabulary * static_cast<std::int64_t>(sizeof(float)), MemoryKind::kDevice);
  }

  void Choose(std::vector<TestRow>& rows, std::vector<TokenChoice>& choices) {
    const auto vocabulary = std::ssize(rows.front().logits);
    const Matrix<float> logits = {reinterpret_cast<float*>(logits_->address()), std::ssize(rows),
                                  vocabulary};
    std::vector<SamplingRow> sampled;
    for (TestRow& row : rows) {
      backend_->Upload(logits.Row(std::ssize(sampled)), std::as_bytes(std::span(row.logits)));
      sampled.push_back(row.state.Row(row.position, row.drafts, row.counts));
    }
    choices.assign(rows.size(), {});
    backend_->ChooseTokens(logits, sampled, choices);
    const Status done = backend_->Synchronize();
    ASSERT_TRUE(done) << done.error().message;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Buffer> logits_;
};

// How often each outcome was seen.
struct Seen {
  std::int64_t tokens = 0;
  std::int64_t not_finite = 0;
  std::int64_t nothing_is_left = 0;
};

void ExpectTheHostsTokens(SamplingGpu& gpu, RandomValues& random, std::int64_t vocabulary,
                          std::int64_t n_rows, Seen& seen) {
  gpu.Reserve(vocabulary);
  Sampler sampler(vocabulary);
  for (std::int64_t done = 0; done < n_rows;) {
    std::vector<TestRow> rows;
    for (const std::int64_t end = std::min(done + random.Integer(1, kRowsOfCall), n_rows);
         done < end; ++done) {
      rows.emplace_back(random, vocabulary);
    }
    std::vector<TokenChoice> choices;
    ASSERT_NO_FATAL_FAILURE(gpu.Choose(rows, choices));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const TestRow& row = rows[i];
      const Result<Token> expected = sampler.Draft(row.logits, row.drafted, row.position);
      const Result<Token> found = ChosenToken(choices[i], row.drafted, row.position);
      ASSERT_EQ(Describe(found), Describe(expected))
          << "vocabulary " << vocabulary << ", row " << done << ", " << i << " of its call";
      seen.tokens += found ? 1 : 0;
      seen.not_finite += !found && found.error().code == ErrorCode::kInvalidData ? 1 : 0;
      seen.nothing_is_left += !found && found.error().code == ErrorCode::kInvalidArgument ? 1 : 0;
    }
  }
}

constexpr EmulatorOptions kSamplingGpus[] = {
    {.wave_size = 32, .visiting = Visiting::kDescending},
    {.wave_size = 64, .visiting = Visiting::kRandom, .runs_when_awaited = true},
};

class GpuSampling : public ::testing::TestWithParam<EmulatorOptions> {};
INSTANTIATE_TEST_SUITE_P(Waves, GpuSampling, ::testing::ValuesIn(kSamplingGpus),
                         [](const auto& test) {
                           return "Wave" + std::to_string(test.param.wave_size);
                         });

TEST_P(GpuSampling, GivesTheTokensOfTheHost) {
  SamplingGpu gpu(GetParam());
  RandomValues random(static_cast<std::uint32_t>(GetParam().wave_size));
  Seen seen;
  for (std::int64_t left = RowsToTest(); left > 0;) {
    const std::int64_t n = std::min<std::int64_t>(left, 500);
    left -= n;
    const std::int64_t vocabulary =
        random.OneIn(3) ? random.Integer(1, 12) : random.Integer(13, 900);
    ASSERT_NO_FATAL_FAILURE(ExpectTheHostsTokens(gpu, random, vocabulary, n, seen));
  }
  EXPECT_GT(seen.tokens, 0);
  EXPECT_GT(seen.not_finite, 0);
  EXPECT_GT(seen.nothing_is_left, 0);
}

// Rows of several tiles.
TEST_P(GpuSampling, OfTheWholeVocabulary) {
  SamplingGpu gpu(GetParam());
  RandomValues random(2);
  Seen seen;
  for (const std::int64_t vocabulary : {std::int64_t{129280}, std::int64_t{8193}}) {
    ASSERT_NO_FATAL_FAILURE(ExpectTheHostsTokens(gpu, random, vocabulary, 20, seen));
  }
}

}  // namespace
}  // namespace fathom::testing
