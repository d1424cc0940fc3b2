// The DSpark drafter against the official code, stage by stage (oracle/README.md of the golden
// data): each part is fed with what the official code fed it with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "kernels/reference/quantize.h"
#include "model/draft/dspark.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

// A session of the official code: a prompt, then steps of drafts and their verification.
struct Session {
  explicit Session(const std::filesystem::path& path) : file(*Checkpoint::Open(path)) {
    for (const std::int32_t token : Numbers<std::int32_t>("tokens")) tokens.push_back(token);
    positions = Numbers<std::int32_t>("step_pos");
    anchors = Numbers<std::int32_t>("step_anchor");
    accepted = Numbers<std::int32_t>("accepted");
    drafts = Numbers<std::int32_t>("draft_tokens");
    block = std::ssize(drafts) / n_steps();
  }

  std::int64_t n_steps() const { return std::ssize(positions); }
  template <class T>
  std::span<const T> View(const char* name) const {
    const TensorView* tensor = file.Find(name);
    Check(tensor != nullptr, "a tensor of the golden");
    return {reinterpret_cast<const T*>(tensor->bytes.data()), tensor->bytes.size() / sizeof(T)};
  }
  template <class T>
  std::vector<T> Numbers(const char* name) const {
    const std::span<const T> view = View<T>(name);
    return {view.begin(), view.end()};
  }

  Checkpoint file;
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> anchors;
  std::vector<std::int32_t> accepted;
  std::vector<std::int32_t> drafts;  // [steps, block]
  std::int64_t block = 0;
};

class DSparkGolden : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto directory = testing::SharedData("oracle/dspark-mini");
    if (!directory) GTEST_SKIP() << testing::kNoSharedData;
    const auto path =
        testing::SharedData(std::string("oracle/dspark-mini/") + GetParam() + ".safetensors");
    session_.emplace(*path);
    const auto n = std::ssize(session_->tokens) + 16;
    loaded_.emplace(
        *directory,
        ModelOptions{
            .max_context = n, .max_batch_tokens = n, .max_logit_rows = 8, .with_draft = true});
  }

  Model& model() { return loaded_->model(); }
  DSparkDrafter& drafter() { return static_cast<DSparkDrafter&>(*model().drafter()); }
  std::int64_t hidden() { return model().config().hidden_size; }

  // Positions from here on are computed again.
  void Rewind(std::int64_t position) { next_position_ = position; }

  // Computes the positions of the session before `end` that are not computed yet.
  Batch Run(std::int64_t end) {
    Batch batch;
    const std::int64_t first = std::exchange(next_position_, end);
    batch.Add(0, static_cast<std::int32_t>(first),
              std::span(session_->tokens)
                  .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)));
    const Status ran = model().Forward(batch);
    EXPECT_TRUE(ran) << ran.error().message;
    return batch;
  }
  // The block of a step.
  Batch MakeBlock(std::int64_t step) {
    std::vector<Token> tokens(static_cast<std::size_t>(session_->block),
                              static_cast<Token>(model().config().dspark->dspark_noise_token_id));
    tokens.front() = session_->anchors[static_cast<std::size_t>(step)];
    Batch block;
    block.Add(0, session_->positions[static_cast<std::size_t>(step)] + 1, tokens);
    return block;
  }

  std::int64_t next_position_ = 0;
  std::optional<Session> session_;
  std::optional<testing::TestModel> loaded_;
};

// Errors of rows relative to the norm of the golden ones.
struct RowErrors {
  void Add(std::span<const Bf16> expected, std::span<const Bf16> actual) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double e = ToFloat(expected[i]);
      difference += (ToFloat(actual[i]) - e) * (ToFloat(actual[i]) - e);
      norm += e * e;
    }
    errors.push_back(std::sqrt(difference / norm));
    n_same += std::ranges::equal(expected, actual, [](Bf16 a, Bf16 b) { return a.bits == b.bits; });
  }

  std::vector<double> errors;
  std::int64_t n_same = 0;
};

// Numbers that differ, by two steps of bf16 at most.
std::int64_t CountOther(std::span<const Bf16> expected, std::span<const Bf16> actual) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (expected[i].bits == actual[i].bits) continue;
    EXPECT_LE(std::abs(expected[i].bits - actual[i].bits), 2) << "number " << i;
    ++n;
  }
  return n;
}

// Keys and stages, with golden features and golden streams.
TEST_P(DSparkGolden, EveryStageGivesTheOfficialRows) {
  const std::int64_t n_stages = model().config().dspark->n_stages;
  const std::int64_t columns = kStreams * hidden();
  const std::int64_t inputs =
      std::ssize(model().config().dspark->dspark_target_layer_ids) * hidden();
  const std::span<const Bf16> features = session_->View<Bf16>("main_hidden");
  const std::span<const Bf16> golden = session_->View<Bf16>("draft_streams");
  const std::span<const Bf16> main_x = session_->View<Bf16>("main_x");
  const std::span<const Bf16> keys = session_->View<Bf16>("context_kv");
  const std::int64_t n_positions = std::ssize(main_x) / hidden();
  const std::int64_t head_dim = model().config().head_dim;
  std::vector<RowErrors> errors(static_cast<std::size_t>(n_stages));
  DSparkTrace trace;
  std::int64_t n_numbers = 0;
  std::int64_t n_other = 0;
  for (std::int64_t step = 0; step < session_->n_steps(); ++step) {
    const std::int64_t end = session_->positions[static_cast<std::size_t>(step)] + 1;
    const std::int64_t first = next_position_;
    const Batch batch = Run(end);
    trace.main_x.clear();
    drafter().set_trace(&trace);
    const Status stored =
        drafter().StoreKeys(batch, {features.data() + first * inputs, end - first, inputs});
    drafter().set_trace(nullptr);
    ASSERT_TRUE(stored) << stored.error().message;
    n_numbers += std::ssize(trace.main_x);
    n_other +=
        CountOther(main_x.subspan(static_cast<std::size_t>(first * hidden()), trace.main_x.size()),
                   trace.main_x);
    for (std::int64_t stage = 0; stage < n_stages; ++stage) {
      const WindowCache window =
          model().cache().HostLayer(model().config().num_hidden_layers + stage).window;
      for (std::int64_t p = std::max<std::int64_t>(first, end - 128); p < end; ++p) {
        std::vector<Bf16> key(static_cast<std::size_t>(head_dim));
        UnpackKey(window.Row(0, p), window.rows.layout, key.data());
        const Bf16* const expected = keys.data() + (stage * n_positions + p) * head_dim;
        EXPECT_TRUE(std::equal(key.begin(), key.end(), expected,
                               [](Bf16 a, Bf16 b) { return a.bits == b.bits; }))
            << "key of stage " << stage << ", position " << p;
      }
      const std::int64_t rows = session_->block * columns;
      const Bf16* const from = golden.data() + (step * (n_stages + 1) + stage) * rows;
      std::vector<Bf16> streams(from, from + rows);
      const Status ran =
          drafter().RunStage(stage, MakeBlock(step), {streams.data(), session_->block, columns});
      ASSERT_TRUE(ran) << ran.error().message;
      for (std::int64_t k = 0; k < session_->block; ++k) {
        const auto at = static_cast<std::size_t>(k * columns);
        const auto size = static_cast<std::size_t>(columns);
        errors[static_cast<std::size_t>(stage)].Add({from + rows + at, size},
                                                    std::span(streams).subspan(at, size));
      }
    }
  }
  // A sum in another order rounds to the neighbour now and then.
  std::printf("main_x: %d of %d numbers are neighbours of the official ones\n",
              static_cast<int>(n_other), static_cast<int>(n_numbers));
  EXPECT_LE(10'000 * n_other, n_numbers);
  for (std::int64_t stage = 0; stage < n_stages; ++stage) {
    RowErrors& of = errors[static_cast<std::size_t>(stage)];
    const auto n = std::ssize(of.errors);
    std::ranges::sort(of.errors);
    std::printf("stage %d: %d of %d rows have the official bits, worst %.5f\n",
                static_cast<int>(stage), static_cast<int>(of.n_same), static_cast<int>(n),
                of.errors.back());
    EXPECT_GE(10 * of.n_same, 9 * n) << "stage " << stage;
    EXPECT_LE(of.errors.back(), 0.05) << "stage " << stage;
  }
}

// The whole session, from tokens alone: the drafts, and which of them the main model accepts.
TEST_P(DSparkGolden, DraftsAndAcceptsAreTheOfficialOnes) {
  for (std::int64_t step = 0; step < session_->n_steps(); ++step) {
    const auto at = static_cast<std::size_t>(step);
    const std::int32_t position = session_->positions[at];
    const Batch batch = Run(position + 1);
    const auto row = static_cast<std::int32_t>(batch.n_tokens() - 1);
    Batch next;
    next.Add(0, position, {&session_->anchors[at], 1});
    const std::vector<std::int32_t> stream_rows = {row};
    ASSERT_TRUE(drafter().Commit(next, stream_rows, StreamSource::kForward));
    std::vector<Token> drafts;
    const std::vector<DraftRequest> requests = {{.row = 0, .n_drafts = session_->block}};
    const Status proposed =
        drafter().Propose(requests, {}, [&](const DraftLogits& found, std::span<Token> tokens) {
          EXPECT_EQ(found.confidences.size(), 1u);
          const auto logits = found.logits.RowSpan(0);
          tokens[0] = static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
          drafts.push_back(tokens[0]);
          return Status();
        });
    ASSERT_TRUE(proposed) << proposed.error().message;
    const auto first = session_->drafts.begin() + step * session_->block;
    EXPECT_EQ(drafts, std::vector<Token>(first, first + session_->block)) << "step " << step;
    // The model accepts what it would say itself.
    std::vector<Token> verified = {session_->anchors[at]};
    verified.insert(verified.end(), drafts.begin(), drafts.end());
    Batch verify;
    verify.Add(0, position + 1, verified);
    ASSERT_TRUE(model().Forward(verify));
    std::int32_t n_accepted = 0;
    for (; n_accepted < session_->block; ++n_accepted) {
      const std::vector<std::int32_t> rows = {n_accepted};
      const auto logits = model().Logits(rows);
      ASSERT_TRUE(logits);
      const auto scores = logits->RowSpan(0);
      const auto best = static_cast<Token>(std::ranges::max_element(scores) - scores.begin());
      if (best != drafts[static_cast<std::size_t>(n_accepted)]) break;
    }
    EXPECT_EQ(n_accepted, session_->accepted[at]) << "step " << step;
    // Goes back to behind what was accepted.
    Rewind(position + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Sessions, DSparkGolden,
                         ::testing::Values("golden", "golden_short", "golden_wrap"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace fathom::model
