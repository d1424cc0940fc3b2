#include "tests/model/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "tests/model/draft_logits.h"

namespace fathom::testing {
namespace {

// The rows of a batch that belong to one piece, and where their logits go.
struct Rows {
  std::int64_t count;
  float* out;
};

// Asks for logits [first, first + count) of the last step, as many at a time as the model gives.
template <class Logits>
void Copy(const std::vector<Rows>& pieces, std::int64_t tile, const Logits& logits) {
  std::int64_t first = 0;
  for (const Rows& piece : pieces) {
    for (std::int64_t i = 0; i < piece.count; i += tile) {
      std::vector<std::int32_t> rows(static_cast<std::size_t>(std::min(tile, piece.count - i)));
      std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first + i));
      const Matrix<const float> part = logits(rows);
      std::memcpy(piece.out + i * part.cols, part.data,
                  static_cast<std::size_t>(part.rows * part.cols) * sizeof(float));
    }
    first += piece.count;
  }
}

// Asks for the logits of a draft behind every row of the last commit.
void CopyDrafts(Model& model, const std::vector<Rows>& pieces) {
  std::int64_t n_rows = 0;
  for (const Rows& piece : pieces) n_rows += piece.count;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(n_rows));
  std::iota(rows.begin(), rows.end(), 0);
  const std::vector<float> logits = LogitsOfDrafts(*model.drafter(), rows);
  if (logits.empty()) return;  // of a rank other than 0
  const float* from = logits.data();
  for (const Rows& piece : pieces) {
    const std::int64_t n = piece.count * model.config().vocab_size;
    std::copy_n(from, n, piece.out);
    from += n;
  }
}

void StepMtp(Model& model, const std::vector<Piece>& pieces, NextToken next) {
  Batch batch;
  std::vector<std::int32_t> stream_rows;
  std::vector<Rows> outputs;
  std::int32_t row = 0;
  for (const auto& [sequence, n_tokens] : pieces) {
    const std::int64_t n_known = next == NextToken::kKnown ? n_tokens : n_tokens - 1;
    const std::int64_t n_next = std::min(n_known, sequence->left() - 1);  // the last has no next
    if (n_next > 0) {
      batch.Add(sequence->slot, static_cast<std::int32_t>(sequence->done),
                std::span<const Token>(sequence->tokens)
                    .subspan(static_cast<std::size_t>(sequence->done + 1),
                             static_cast<std::size_t>(n_next)));
      for (std::int32_t i = 0; i < n_next; ++i) {
        stream_rows.push_back(row + i);
      }
      outputs.push_back(
          {n_next, sequence->mtp_logits.data() + sequence->done * model.config().vocab_size});
    }
    row += static_cast<std::int32_t>(n_tokens);
  }
  if (batch.n_tokens() == 0) {
    return;
  }
  const Status ran = model.drafter()->Commit(batch, stream_rows, StreamSource::kForward);
  ASSERT_TRUE(ran) << ran.error().message;
  CopyDrafts(model, outputs);
}

void ExpectSameRows(const std::vector<float>& expected, const std::vector<float>& actual,
                    std::int64_t rows, std::int64_t vocab, const std::string& what) {
  const auto size = static_cast<std::size_t>(rows * vocab);
  ASSERT_GE(expected.size(), size) << what;
  ASSERT_GE(actual.size(), size) << what;
  if (std::memcmp(expected.data(), actual.data(), size * sizeof(float)) == 0) {
    return;
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (std::memcmp(&expected[i], &actual[i], sizeof(float)) != 0) {
      ADD_FAILURE() << what << ": position " << i / static_cast<std::size_t>(vocab) << " token "
                    << i % static_cast<std::size_t>(vocab) << ": expected " << expected[i]
                    << ", found " << actual[i];
      return;
    }
  }
}

}  // namespace

Sequence::Sequence(const ModelConfig& config, std::int32_t slot_to_use,
                   std::vector<Token> tokens_to_run)
    : slot(slot_to_use), tokens(std::move(tokens_to_run)) {
  logits.resize(tokens.size() * static_cast<std::size_t>(config.vocab_size));
  mtp_logits.resize((tokens.size() - 1) * static_cast<std::size_t>(config.vocab_size));
}

namespace {

// run(batch): one Forward.
template <class Run>
void StepBy(Model& model, const std::vector<Piece>& pieces, NextToken next, const Run& run) {
  Batch batch;
  std::vector<Rows> outputs;
  for (const auto& [sequence, n_tokens] : pieces) {
    ASSERT_LE(n_tokens, sequence->left());
    batch.Add(
        sequence->slot, static_cast<std::int32_t>(sequence->done),
        std::span<const Token>(sequence->tokens)
            .subspan(static_cast<std::size_t>(sequence->done), static_cast<std::size_t>(n_tokens)));
    outputs.push_back(
        {n_tokens, sequence->logits.data() + sequence->done * model.config().vocab_size});
  }
  const Status ran = run(batch);
  ASSERT_TRUE(ran) << ran.error().message;
  Copy(outputs, model.options().max_logit_rows,
       [&](std::span<const std::int32_t> rows) { return *model.Logits(rows); });
  if (model.options().with_draft) {
    StepMtp(model, pieces, next);
  }
  for (const auto& [sequence, n_tokens] : pieces) {
    sequence->done += n_tokens;
  }
}

}  // namespace

void Step(Model& model, const std::vector<Piece>& pieces, NextToken next) {
  StepBy(model, pieces, next, [&](const Batch& batch) { return model.Forward(batch); });
}

void StepInPieces(Model& model, const std::vector<Piece>& pieces,
                  const std::function<void()>& between) {
  StepBy(model, pieces, NextToken::kKnown, [&](const Batch& batch) -> Status {
    const Result<std::unique_ptr<LayeredPass>> pass = model.BeginPass(batch);
    if (!pass) return Unexpected(pass.error());
    std::vector<SequenceFailure> failed;
    for (PassProgress progress = {.layers = 1}; !progress.HasEnded();) {
      between();
      const Result<PassProgress> ran = (*pass)->Continue(failed);
      if (!ran) return Unexpected(ran.error());
      progress = *ran;
    }
    EXPECT_TRUE(failed.empty());
    return {};
  });
}

void DraftKept(Model& model, const std::vector<Sequence*>& sequences) {
  Batch batch;
  std::vector<Rows> outputs;
  for (Sequence* sequence : sequences) {
    const std::int64_t position = sequence->done - 1;
    batch.Add(sequence->slot, static_cast<std::int32_t>(position),
              {&sequence->tokens[static_cast<std::size_t>(sequence->done)], 1});
    outputs.push_back({1, sequence->mtp_logits.data() + position * model.config().vocab_size});
  }
  const Status ran = model.drafter()->Commit(batch, {}, StreamSource::kKept);
  ASSERT_TRUE(ran) << ran.error().message;
  CopyDrafts(model, outputs);
}

Sequence RunAlone(Model& model, const std::vector<Token>& tokens,
                  const std::vector<std::int64_t>& chunks) {
  Sequence sequence(model.config(), 0, tokens);
  for (std::size_t i = 0; sequence.left() > 0 && !::testing::Test::HasFatalFailure(); ++i) {
    const std::int64_t chunk = chunks[std::min(i, chunks.size() - 1)];
    Step(model, {{&sequence, std::min(chunk, sequence.left())}});
  }
  return sequence;
}

std::vector<Token> RandomTokens(const ModelConfig& config, std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  for (Token& token : tokens) {
    token = static_cast<Token>(random() % static_cast<std::uint32_t>(config.vocab_size));
  }
  return tokens;
}

void ExpectSameBits(const Sequence& expected, const Sequence& actual, std::int64_t n,
                    const std::string& what) {
  const auto vocab = static_cast<std::int64_t>(expected.logits.size() / expected.tokens.size());
  ExpectSameRows(expected.logits, actual.logits, n, vocab, what + ", logits");
  ExpectSameRows(expected.mtp_logits, actual.mtp_logits, n - 1, vocab, what + ", mtp_logits");
}

}  // namespace fathom::testing
