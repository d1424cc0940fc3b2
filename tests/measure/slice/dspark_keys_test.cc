// The keys of a DSpark drafter: whichever steps have computed the positions, drafts find the same.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "measure/slice/write_slice.h"
#include "model/draft/dspark.h"
#include "tests/measure/slice/tiny.h"
#include "tests/model/draft_logits.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure {
namespace {

constexpr std::int64_t kKeysVocabulary = 300;
constexpr std::int64_t kTinyWindow = 16;  // of the tiny configuration

class DSparkKeys : public ::testing::Test {
 protected:
  void SetUp() override {
    ThreadTeam team(2);
    const Result<SliceSummary> written = WriteSlice(
        directory_.path(),
        {.config = testing::TinyConfig(
             {.ratios = {0, 4, 128, 4}, .vocab_size = kKeysVocabulary, .draft = &kDSparkDrafter}),
         .seed = 5},
        team, {});
    ASSERT_TRUE(written) << written.error().message;
    // Fewer rows than a window: late keys take several passes.
    model_.emplace(directory_.path(), ModelOptions{.max_sequences = 3,
                                                   .max_context = 200,
                                                   .max_batch_tokens = kTinyWindow / 2,
                                                   .with_draft = true});
  }
  Model& model() { return model_->model(); }

  static Token TokenAt(std::int64_t position, int text) {
    return static_cast<Token>((3 + position * 37 + text * 11) % kKeysVocabulary);
  }
  // Computes positions [first, end) of a text in steps of at most `chunk` tokens.
  void Run(std::int32_t sequence, int text, std::int64_t first, std::int64_t end,
           std::int64_t chunk) {
    while (first < end) {
      std::vector<Token> tokens;
      for (std::int64_t i = first; i < std::min(first + chunk, end); ++i) {
        tokens.push_back(TokenAt(i, text));
      }
      Batch batch;
      batch.Add(sequence, static_cast<std::int32_t>(first), tokens);
      const Status ran = model().Forward(batch);
      ASSERT_TRUE(ran) << ran.error().message;
      first += std::ssize(tokens);
    }
  }
  // The logits of a draft behind the last position of the last step, which had n_rows.
  std::vector<float> Draft(std::int32_t sequence, int text, std::int64_t end, std::int64_t n_rows) {
    Batch next;
    next.Add(sequence, static_cast<std::int32_t>(end - 1), std::vector<Token>{TokenAt(end, text)});
    const Status committed = model().drafter()->Commit(
        next, std::vector<std::int32_t>{static_cast<std::int32_t>(n_rows - 1)},
        StreamSource::kForward);
    EXPECT_TRUE(committed) << (committed ? "" : committed.error().message);
    return testing::LogitsOfDrafts(*model().drafter(), std::vector<std::int32_t>{0});
  }

 private:
  testing::TemporaryDirectory directory_;
  std::optional<testing::TestModel> model_;
};

TEST_F(DSparkKeys, AreStoredWhenTheyAreNeeded) {
  for (const std::int64_t end : {1, 2, 15, 16, 17, 40, 131}) {
    const std::int64_t chunk =
        end % 2 == 0 ? 2 : 8;  // the last step has no single token unless it must
    Run(0, 0, 0, end, chunk);
    const std::int64_t n_rows = end % chunk == 0 ? chunk : end % chunk;
    const std::vector<float> expected = Draft(0, 0, end, n_rows);
    // Token by token; and token by token behind a prompt, behind which a window or less is missing.
    for (const std::int64_t prompt : {std::int64_t{0}, end / 2, end - 1}) {
      Run(1, 0, 0, prompt, 8);
      Run(1, 0, prompt, end, 1);
      EXPECT_EQ(Draft(1, 0, end, 1), expected) << prompt << " of " << end;
    }
    // Some single tokens, then others again in a chunk, then single ones.
    if (end < 40) continue;
    Run(1, 0, 0, end - 30, 8);
    Run(1, 0, end - 30, end - 20, 1);
    Run(1, 0, end - 20, end - 15, 5);
    Run(1, 0, end - 15, end, 1);
    EXPECT_EQ(Draft(1, 0, end, 1), expected) << end;
  }
}

// Kept positions of a text are not those of the next one in the same slot.
TEST_F(DSparkKeys, AreThoseOfTheSequenceThatHasTheSlot) {
  Run(0, 1, 0, 40, 8);
  const std::vector<float> expected = Draft(0, 1, 40, 8);
  Run(1, 0, 0, 30, 1);
  Run(1, 1, 0, 32, 8);
  Run(1, 1, 32, 40, 1);
  EXPECT_EQ(Draft(1, 1, 40, 1), expected);
  // A copy begins where the first text has kept positions in its slot.
  Run(2, 0, 0, 32, 1);
  Run(1, 1, 0, 32, 8);
  model().cache().Fork(1, 2);
  Run(2, 1, 32, 40, 8);
  EXPECT_EQ(Draft(2, 1, 40, 8), expected);
}

// Drafts that are verified store their keys at once; those that were taken back are overwritten.
TEST_F(DSparkKeys, OfPositionsThatAreTakenBack) {
  Run(0, 1, 0, 24, 8);
  const std::vector<float> expected = Draft(0, 1, 24, 8);
  Run(1, 1, 0, 16, 8);
  Run(1, 1, 16, 20, 1);
  Run(1, 0, 20, 24, 4);  // wrong drafts
  Run(1, 1, 20, 24, 1);
  EXPECT_EQ(Draft(1, 1, 24, 1), expected);
}

}  // namespace
}  // namespace fathom::measure
