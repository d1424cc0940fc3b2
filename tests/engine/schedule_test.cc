// One answer each: whatever runs beside a request, its answer is the one it would get alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/engine/fake_model.h"
#include "tests/engine/schedules.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kVocabulary = 40;
constexpr std::int64_t kContext = 700;

// FATHOM_SCHEDULES=FIRST,COUNT runs other seeds than the usual ones.
struct Seeds {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
Seeds ChosenSeeds(std::uint64_t usual_count) {
  const char* chosen = std::getenv("FATHOM_SCHEDULES");
  Seeds seeds = {.first = 1, .count = usual_count};
  if (chosen != nullptr) {
    char* rest = nullptr;
    seeds.first = std::strtoull(chosen, &rest, 10);
    seeds.count = *rest == ',' ? std::strtoull(rest + 1, nullptr, 10) : 1;
  }
  return seeds;
}

std::string_view Letter(Token token) {
  return std::string_view("abcdefghijklmnopqrstuvwxyz")
      .substr(static_cast<std::size_t>(token % 5), 1);
}

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / name) {
    std::filesystem::remove_all(path_);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

// Enough for a sequence of the whole context, and little more.
std::int64_t SmallMemory(const FakeModelOptions& options) {
  FakeModel large(options);
  const SequenceCache& cache = large.Cache();
  const std::int64_t per_slab = cache.arena().histories_per_slab();
  const std::int64_t slabs = MostWindowBlocks(cache.shape()) + 1 +
                             (BlocksOf(kContext + cache.shape().lookahead) + per_slab) / per_slab;
  const std::int64_t tails = cache.bytes() - cache.arena().n_slabs() * cache.SlabBytes();
  return tails + (slabs + 1) * cache.SlabBytes();
}

std::unique_ptr<LanguageModel> MakeFake(const ScheduleSetup& setup) {
  FakeModelOptions options = {.limits = {.vocab_size = kVocabulary,
                                         .max_sequences = setup.max_sequences,
                                         .max_context = kContext,
                                         .max_batch_tokens = setup.max_batch_tokens,
                                         .max_logit_rows = setup.max_logit_rows,
                                         .rollback_tokens = 8,
                                         .has_draft = setup.engine.draft.enabled}};
  if (setup.small_memory) {
    options.memory_bytes = SmallMemory(options);
  }
  return std::make_unique<FakeModel>(options);
}

TEST(Schedules, EveryRequestIsAnsweredAsIfItWereAlone) {
  const ScheduleLimits limits = {.vocab_size = kVocabulary,
                                 .max_context = kContext,
                                 .max_prompt = 600,
                                 .max_answer = 60,
                                 .max_requests = 14,
                                 .eos_tokens = {1},
                                 .token_bytes = Letter};
  const ReferenceModel alone = {.logits =
                                    [](std::span<const Token> tokens) {
                                      return FakeModel::Expected(tokens, kVocabulary, 128);
                                    },
                                .eos_tokens = {1},
                                .token_bytes = Letter,
                                .max_context = kContext};
  const Seeds seeds = ChosenSeeds(600);
  ScheduleCounts counts;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const TemporaryDirectory directory(fmt::format("fathom_schedule_{}_{}", getpid(), seed));
    const std::string wrong = RunSchedule(
        seed, limits, MakeFake,
        [&](const Request& request, std::uint32_t choice) {
          return AnswerAlone(alone, request, choice);
        },
        directory.path(), counts);
    ASSERT_EQ(wrong, "") << "again: FATHOM_SCHEDULES=" << seed << ",1";
  }
  fmt::print(
      "{} schedules, {} answers, {} tokens, {} cancelled; {} steps, {} prompt tokens, {} cached, "
      "{} "
      "evictions, {} preemptions, drafts right {}/{}\n",
      counts.schedules, counts.answers, counts.tokens, counts.cancelled, counts.metrics.steps,
      counts.metrics.prompt_tokens, counts.metrics.cached_tokens, counts.metrics.evicted_blocks,
      counts.metrics.preemptions, counts.metrics.accepted[0], counts.metrics.drafted[0]);
  // Schedules in which nothing happens would prove nothing.
  if (seeds.count >= 100) {
    EXPECT_GT(counts.metrics.cached_tokens, counts.metrics.prompt_tokens / 20);
    EXPECT_GT(counts.metrics.preemptions, 10);
    EXPECT_GT(counts.metrics.evicted_blocks, 100);
    EXPECT_GT(counts.metrics.accepted[0], 100);
    EXPECT_GT(counts.cancelled, 10);
  }
}

}  // namespace
}  // namespace fathom::testing
