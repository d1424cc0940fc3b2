#include "tests/engine/schedule_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "model/draft/drafters.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

// Logits of one text at a time, a token behind the other.
class LogitsAlone {
 public:
  explicit LogitsAlone(const std::filesystem::path& directory)
      : loaded_(directory, {.max_context = kContext, .max_batch_tokens = kContext}) {}

  std::vector<float> operator()(std::span<const Token> tokens) {
    const bool goes_on = !read_.empty() && read_.size() + 1 == tokens.size() &&
                         std::equal(read_.begin(), read_.end(), tokens.begin());
    const std::size_t first = goes_on ? read_.size() : 0;
    Batch batch;
    batch.Add(0, static_cast<std::int32_t>(first), tokens.subspan(first));
    const Status ran = loaded_.model().Forward(batch);
    Check(ran.has_value(), "a model that runs alone");
    read_.assign(tokens.begin(), tokens.end());
    const std::int32_t last[] = {static_cast<std::int32_t>(batch.n_tokens() - 1)};
    const std::span<const float> logits = loaded_.model().Logits(last)->RowSpan(0);
    return {logits.begin(), logits.end()};
  }
  std::int64_t vocab_size() { return loaded_.model().config().vocab_size; }

 private:
  TestModel loaded_;
  std::vector<Token> read_;
};

}  // namespace

Seeds ChosenSeeds(std::uint64_t usual_count, std::uint64_t usual_first) {
  const char* chosen = std::getenv("FATHOM_SCHEDULES");
  Seeds seeds = {.first = usual_first, .count = usual_count};
  if (chosen != nullptr) {
    char* rest = nullptr;
    seeds.first = std::strtoull(chosen, &rest, 10);
    seeds.count = *rest == ',' ? std::strtoull(rest + 1, nullptr, 10) : 1;
  }
  return seeds;
}

std::string_view LetterOfFive(Token token) {
  return std::string_view("abcdefghijklmnopqrstuvwxyz")
      .substr(static_cast<std::size_t>(token % 5), 1);
}

std::int64_t SmallMemory(const SequenceCache& large) {
  const BlockArena& arena = large.arena(0);
  const std::int64_t per_slab = arena.histories_per_slab();
  const std::int64_t blocks = BlockCount(kContext + large.shape().lookahead);
  const std::int64_t slabs = MostWindowBlocks(large.shape()) + (blocks + per_slab - 1) / per_slab;
  const std::int64_t others = large.bytes() - arena.n_slabs() * large.SlabBytes();
  return others + slabs * large.SlabBytes();
}

ScheduleCounts ExpectOneAnswerEach(const ScheduleLimits& limits, const MakeModel& make,
                                   const AnswerOf& answer_of, const Seeds& seeds) {
  ScheduleCounts counts;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const TemporaryDirectory directory;
    const std::string wrong =
        RunSchedule(seed, limits, make, answer_of, directory.path() / "blocks", counts);
    EXPECT_EQ(wrong, "") << "again: FATHOM_SCHEDULES=" << seed << ",1";
    if (!wrong.empty()) return counts;
  }
  const MetricsSnapshot& m = counts.metrics;
  fmt::print(
      "{} schedules, {} answers, {} tokens, {} cancelled; {} steps, {} prompt tokens, {} cached, "
      "{} "
      "evictions, {} preemptions, drafts right {}/{}, lookups {}/{}, {} masks, {} late\n",
      counts.schedules, counts.answers, counts.tokens, counts.cancelled, m.steps, m.prompt_tokens,
      m.cached_tokens, m.evicted_blocks, m.preemptions, m.accepted[0], m.drafted[0],
      m.accepted_lookups[0], m.looked_up[0], m.masks, m.late_masks);
  if (seeds.count >= 10) {
    const auto n = static_cast<std::int64_t>(seeds.count);
    EXPECT_GT(m.preemptions, n / 20);
    // Prompts of hardly a block share none.
    if (limits.max_prompt >= 2 * kBlockTokens) {
      EXPECT_GT(m.cached_tokens, m.prompt_tokens / 50);
      EXPECT_GT(m.evicted_blocks, n);
    }
    // Weights without training guess right once in a hundred drafts.
    constexpr std::int64_t kLongAnswer = 60;
    const std::int64_t n_right = m.accepted[0] + m.accepted_lookups[0];
    EXPECT_GT(n_right, limits.max_answer < kLongAnswer ? 0 : n);
    EXPECT_GT(counts.cancelled, n / 20);
    EXPECT_GT(m.masks, limits.constraints ? counts.tokens / 10 : -1);
  }
  return counts;
}

// The deepest drafts of a checkpoint.
static std::int64_t FindDraftDepth(const std::filesystem::path& directory) {
  Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  Check(config && checkpoint, "a checkpoint of the tests");
  const DrafterKind* const drafter = FindDrafter(*checkpoint, *config);
  return drafter == nullptr ? 0 : drafter->depth(*config);
}

ScheduleCounts ExpectOneAnswerEach(const std::filesystem::path& directory, const LoadModel& load,
                                   std::uint64_t n_schedules, bool with_disk, int n_data,
                                   const ScheduleSizes& sizes) {
  LogitsAlone logits(directory);
  const ScheduleLimits limits = {.vocab_size = logits.vocab_size(),
                                 .max_context = kContext,
                                 .max_prompt = sizes.max_prompt,
                                 .max_answer = sizes.max_answer,
                                 .max_requests = sizes.max_requests * n_data,
                                 .eos_tokens = {1},
                                 .token_bytes = LetterOfFive,
                                 .disk = with_disk,
                                 .constraints = true,
                                 .make_constraint = sizes.make_constraint,
                                 .max_draft_depth = FindDraftDepth(directory),
                                 .n_data = n_data};
  const ReferenceModel alone = {.logits = std::ref(logits),
                                .eos_tokens = {1},
                                .token_bytes = LetterOfFive,
                                .max_context = kContext};
  return ExpectOneAnswerEach(
      limits, [&](const ScheduleSetup& setup) { return load(directory, setup); },
      [&](const Request& request, std::uint32_t choice) {
        return AnswerAlone(alone, request, choice);
      },
      ChosenSeeds(n_schedules, sizes.first_seed));
}

}  // namespace fathom::testing
