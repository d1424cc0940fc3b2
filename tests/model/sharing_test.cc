// Sequences that share blocks of their caches give the bytes that each gives alone: begun behind
// blocks of another, forked, drafted and taken back, in memory that holds NaN wherever nothing was
// stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kv_cache/sequence_cache.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

using testing::DraftKept;
using testing::NextToken;
using testing::Piece;
using testing::Sequence;
using testing::Step;

constexpr std::int64_t kSharedTokens = 330;  // two blocks, and a good half of the third

struct SharingCase {
  const char* checkpoint;  // for the test's name
  const char* golden;      // in the golden data; nullptr: the embedded model
  std::optional<Isa> isa;  // default: the widest of this machine
  testing::TestMemory memory = testing::TestMemory::kHost;
};

// Writes bytes that no result survives: NaN as float, as bf16 and as FP8.
void Poison(const SequenceCache& cache, void* to, std::int64_t bytes) {
  cache.backend().Upload(to,
                         std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0xFF}));
}

void PoisonFreeBlocks(SequenceCache& cache) {
  const BlockArena& arena = cache.arena();
  for (std::int32_t slab = 0; slab < arena.n_slabs(); ++slab) {
    const auto per_slab = static_cast<std::int32_t>(arena.histories_per_slab());
    for (std::int32_t i = slab * per_slab; i < (slab + 1) * per_slab; ++i) {
      if (arena.uses(BlockKind::kWindow, slab) == 0 && arena.uses(BlockKind::kHistory, i) == 0) {
        Poison(cache, cache.BlockAddress(BlockKind::kHistory, i),
               cache.BlockBytes(BlockKind::kHistory));
      }
    }
  }
}

void PoisonTails(SequenceCache& cache, std::int32_t slot) {
  for (std::int64_t i = 0; i < cache.n_layers(); ++i) {
    for (const CompressorCache* compressor :
         {&cache.Layer(i).compressor, &cache.Layer(i).indexer}) {
      const std::int64_t n = compressor->tail_slots;
      for (const Matrix<float>* tail : {&compressor->tail_values, &compressor->tail_scores}) {
        if (n > 0) {
          Poison(cache, tail->Row(slot * n),
                 n * tail->cols * static_cast<std::int64_t>(sizeof(float)));
        }
      }
    }
  }
}

// The whole blocks of one sequence with a use of each, as a cache of prefixes has them.
class HeldBlocks {
 public:
  explicit HeldBlocks(SequenceCache& cache) : cache_(cache) {}
  ~HeldBlocks() {
    for (std::size_t i = 0; i < history_.size(); ++i) {
      cache_.arena().Free(BlockKind::kHistory, history_[i]);
      cache_.arena().Free(BlockKind::kWindow, windows_[i]);
    }
  }
  HeldBlocks(const HeldBlocks&) = delete;
  HeldBlocks& operator=(const HeldBlocks&) = delete;

  // After every step: later ones give window blocks back.
  void Hold(std::int32_t slot) {
    for (std::int64_t i = std::ssize(history_); i < cache_.next_position(slot) / kBlockTokens;
         ++i) {
      history_.push_back(cache_.FindBlock(BlockKind::kHistory, slot, i));
      windows_.push_back(cache_.FindBlock(BlockKind::kWindow, slot, i));
      cache_.arena().Share(BlockKind::kHistory, history_.back());
      cache_.arena().Share(BlockKind::kWindow, windows_.back());
    }
  }

  // Begins a sequence behind the first n, whatever the memory that is not theirs held.
  void AttachTo(std::int32_t slot, std::int64_t n) const {
    cache_.Release(slot);
    PoisonFreeBlocks(cache_);
    PoisonTails(cache_, slot);
    const auto n_windows = static_cast<std::size_t>(cache_.BoundaryWindows(n));
    cache_.Attach(slot, std::span(history_).first(static_cast<std::size_t>(n)),
                  std::span(windows_).first(static_cast<std::size_t>(n)).last(n_windows));
  }

 private:
  SequenceCache& cache_;
  std::vector<std::int32_t> history_;
  std::vector<std::int32_t> windows_;
};

class Sharing : public ::testing::TestWithParam<SharingCase> {
 protected:
  void SetUp() override {
    const SharingCase& c = GetParam();
    const std::vector<Isa> available = AvailableIsas();
    if (c.isa && std::ranges::find(available, *c.isa) == available.end()) {
      GTEST_SKIP() << "this machine does not have " << Name(*c.isa);
    }
    const auto directory = c.golden == nullptr ? std::optional(testing::ProjectPath("models/fairy"))
                                               : testing::SharedData(c.golden);
    if (!directory) {
      GTEST_SKIP() << testing::kNoSharedData;
    }
    const ModelOptions options{.max_sequences = 4,
                               .max_context = kSharedTokens + 10,
                               .max_batch_tokens = 2 * kSharedTokens,
                               .max_logit_rows = 64,
                               .with_draft = true};
    loaded_ = std::make_unique<testing::TestModel>(
        *directory, options, testing::TestBackend{.isa = c.isa, .memory = c.memory});
    // The reference: runs where nothing is shared, with the widest instruction set.
    alone_ = std::make_unique<testing::TestModel>(*directory, options);
    PoisonFreeBlocks(cache());
    text_ = testing::RandomTokens(model().config(), kSharedTokens, 1);
  }

  Model& model() { return loaded_->model(); }
  SequenceCache& cache() { return model().cache(); }

  // The text as far as n tokens, then other tokens.
  std::vector<Token> OtherEnd(std::int64_t n, std::uint32_t seed) {
    std::vector<Token> tokens = testing::RandomTokens(model().config(), kSharedTokens, seed);
    std::copy_n(text_.begin(), n, tokens.begin());
    // Other from the first one on.
    const auto first = static_cast<std::size_t>(n);
    tokens[first] = (text_[first] + 1) % static_cast<Token>(model().config().vocab_size);
    return tokens;
  }

  // A step that keeps all window blocks for others.
  void StepAndStore(const std::vector<Piece>& pieces) {
    for (const auto& [sequence, n_tokens] : pieces) {
      ASSERT_TRUE(cache()
                      .Extend(sequence->slot, sequence->done, n_tokens, StoredWindows::kAll)
                      .has_value());
    }
    Step(model(), pieces);
  }

  // The first n_tokens of `tokens`, in pieces.
  Sequence Begin(std::int32_t slot, const std::vector<Token>& tokens, std::int64_t n_tokens,
                 std::int64_t piece, HeldBlocks* held = nullptr) {
    Sequence sequence(model().config(), slot, tokens);
    while (sequence.done < n_tokens && !HasFatalFailure()) {
      StepAndStore({{&sequence, std::min(piece, n_tokens - sequence.done)}});
      if (held != nullptr) {
        held->Hold(slot);
      }
    }
    return sequence;
  }

  // Continues the first n computed positions of `from` with other tokens.
  static Sequence GoOn(const Sequence& from, std::int32_t slot, std::vector<Token> tokens,
                       std::int64_t n) {
    Sequence sequence = from;
    sequence.slot = slot;
    sequence.tokens = std::move(tokens);
    sequence.done = n;
    return sequence;
  }

  // To the end, in pieces; the last of them is repeated.
  void Finish(Sequence& sequence, const std::vector<std::int64_t>& pieces) {
    for (std::size_t i = 0; sequence.left() > 0 && !HasFatalFailure(); ++i) {
      const std::int64_t piece = pieces[std::min(i, pieces.size() - 1)];
      Step(model(), {{&sequence, std::min(piece, sequence.left())}});
    }
  }

  void ExpectAsAlone(const Sequence& sequence, const std::string& what) {
    auto found = alone_runs_.find(sequence.tokens);
    if (found == alone_runs_.end()) {
      Sequence run = testing::RunAlone(alone_->model(), sequence.tokens, {kSharedTokens});
      found = alone_runs_.emplace(sequence.tokens, std::move(run)).first;
    }
    testing::ExpectSameBits(found->second, sequence, sequence.done, what);
  }

  std::unique_ptr<testing::TestModel> loaded_;
  std::unique_ptr<testing::TestModel> alone_;
  std::map<std::vector<Token>, Sequence> alone_runs_;
  std::vector<Token> text_;
};

TEST_P(Sharing, ASequenceBeginsBehindBlocksOfAnother) {
  for (const std::int64_t piece : {kSharedTokens, std::int64_t{50}}) {
    HeldBlocks blocks(cache());
    Sequence first = Begin(0, text_, 300, piece, &blocks);
    for (const std::int64_t n_blocks : {1, 2}) {
      const std::int64_t n = n_blocks * kBlockTokens;
      for (const std::vector<Token>& tokens : {text_, OtherEnd(n, 2)}) {
        blocks.AttachTo(1, n_blocks);
        Sequence second = GoOn(first, 1, tokens, n);
        DraftKept(model(), {&second});
        Finish(second, {1, 2, 40});
        ExpectAsAlone(second, std::to_string(n_blocks) + " blocks");
      }
    }
    Finish(first, {11});
    ExpectAsAlone(first, "the first");
  }
}

TEST_P(Sharing, WhileTheOtherGoesOnInTheSameBatch) {
  HeldBlocks blocks(cache());
  Sequence first = Begin(0, text_, 257, 100, &blocks);
  std::vector<Sequence> others;
  for (const std::int64_t n_blocks : {1, 2}) {
    const auto slot = static_cast<std::int32_t>(n_blocks);
    blocks.AttachTo(slot, n_blocks);
    const std::int64_t n = n_blocks * kBlockTokens;
    others.push_back(GoOn(first, slot, OtherEnd(n, 3), n));
  }
  DraftKept(model(), {&others[0], &others[1]});
  while (first.left() > 0 && !HasFatalFailure()) {
    Step(model(), {{&others[1], std::min<std::int64_t>(7, others[1].left())},
                   {&first, std::min<std::int64_t>(5, first.left())},
                   {&others[0], std::min<std::int64_t>(11, others[0].left())}});
  }
  ExpectAsAlone(first, "the first");
  ExpectAsAlone(others[0], "behind one block");
  ExpectAsAlone(others[1], "behind two blocks");
}

// The blocks outlive the sequence that computed them; its slot and its other blocks have new users.
TEST_P(Sharing, AfterTheOtherIsGone) {
  for (const std::int64_t n_blocks : {1, 2}) {
    const std::int64_t n = n_blocks * kBlockTokens;
    HeldBlocks blocks(cache());
    const Sequence first = Begin(0, text_, 300, 90, &blocks);
    cache().Release(0);
    PoisonFreeBlocks(cache());
    Sequence stranger =
        Begin(0, testing::RandomTokens(model().config(), kSharedTokens, 4), 200, kSharedTokens);
    blocks.AttachTo(2, n_blocks);
    Sequence second = GoOn(first, 2, OtherEnd(n, 5), n);
    DraftKept(model(), {&second});
    while (second.left() > 0 && !HasFatalFailure()) {
      std::vector<Piece> pieces = {{&second, std::min<std::int64_t>(30, second.left())}};
      if (stranger.left() > 0) {
        pieces.push_back({&stranger, std::min<std::int64_t>(20, stranger.left())});
      }
      Step(model(), pieces);
    }
    ExpectAsAlone(second, "behind " + std::to_string(n_blocks) + " blocks");
    ExpectAsAlone(stranger, "the stranger");
  }
}

// A chain: each sequence begins behind blocks that the one before it began behind or added.
TEST_P(Sharing, BehindBlocksThatWereSharedBefore) {
  HeldBlocks blocks(cache());
  const Sequence first = Begin(0, text_, 130, kSharedTokens, &blocks);
  blocks.AttachTo(1, 1);
  cache().Release(0);
  Sequence second = GoOn(first, 1, OtherEnd(140, 6), 128);
  DraftKept(model(), {&second});
  StepAndStore({{&second, 128}});
  blocks.Hold(1);
  cache().Release(1);
  blocks.AttachTo(3, 2);
  Sequence third = GoOn(second, 3, second.tokens, 256);
  DraftKept(model(), {&third});
  Finish(third, {3, 20});
  ExpectAsAlone(third, "the third");
}

// Both go on, with other tokens, in turns: neither sees what the other writes.
TEST_P(Sharing, AForkAtAnyPosition) {
  for (const std::int64_t n : {1, 3, 4, 5, 127, 128, 129, 130, 255, 256, 300}) {
    SCOPED_TRACE(n);
    Sequence first = Begin(0, text_, n, 128);
    cache().Release(1);
    PoisonFreeBlocks(cache());
    PoisonTails(cache(), 1);
    cache().Fork(0, 1);
    Sequence second = GoOn(first, 1, OtherEnd(n, 7), n);
    DraftKept(model(), {&second});
    const std::int64_t end = std::min(n + 150, kSharedTokens);
    std::int64_t piece = 1;
    while (first.done < end && !HasFatalFailure()) {
      const std::int64_t room = end - first.done;
      if (piece % 2 == 0) {
        Step(model(), {{&first, std::min(piece, room)}, {&second, std::min(piece, room)}});
      } else {
        Step(model(), {{&second, std::min(piece, room)}});
        Step(model(), {{&first, std::min(piece, room)}});
      }
      piece = 3 * piece - (piece > 1 ? 1 : 0);  // 1, 3, 8, 23, 68
    }
    ExpectAsAlone(first, "the first");
    ExpectAsAlone(second, "the second");
  }
}

// Other tokens for positions that a fork has computed, in a step so long that the next one does not
// see the block it began in.
TEST_P(Sharing, ALongStepBehindDraftsThatAForkKept) {
  Sequence first = Begin(0, text_, 100, kSharedTokens);
  cache().Fork(0, 1);
  Sequence second = GoOn(first, 1, text_, 100);
  Sequence third = GoOn(first, 0, OtherEnd(97, 8), 96);
  Step(model(), {{&third, 220}});
  Finish(second, {3, 40});
  ExpectAsAlone(third, "the one with other tokens");
  ExpectAsAlone(second, "its fork");
}

// Four samples of one prompt, whose next tokens are known only behind the fork.
TEST_P(Sharing, ForksBeforeTheNextTokenIsKnown) {
  for (const std::int64_t n : {100, 127, 128, 256}) {
    SCOPED_TRACE(n);
    std::vector<Sequence> all;
    all.emplace_back(model().config(), 0, text_);
    Step(model(), {{&all[0], n}}, NextToken::kUnknown);
    for (std::int32_t slot = 1; slot < 4; ++slot) {
      cache().Fork(0, slot);
      all.push_back(GoOn(all[0], slot, OtherEnd(n, 10 + static_cast<std::uint32_t>(slot)), n));
      const auto vocab = static_cast<Token>(model().config().vocab_size);
      all.back().tokens[static_cast<std::size_t>(n)] =
          (text_[static_cast<std::size_t>(n)] + slot) % vocab;
    }
    DraftKept(model(), {&all[2], &all[0]});
    DraftKept(model(), {&all[3], &all[1]});
    for (const std::int64_t n_tokens : {1, 1, 7, 30}) {
      Step(model(), {{&all[0], n_tokens}, {&all[3], n_tokens}});
      Step(model(), {{&all[2], n_tokens}, {&all[1], n_tokens}});
    }
    for (const Sequence& sequence : all) {
      ExpectAsAlone(sequence, "slot " + std::to_string(sequence.slot));
    }
  }
}

// Rejected drafts on both sides of a block border, with and without others that share the block.
TEST_P(Sharing, DraftsAreTakenBackAcrossABlockBorder) {
  for (const std::int64_t border : {128, 256}) {
    for (std::int64_t n = border - kRollbackTokens; n <= border + 2; ++n) {
      for (const bool shared : {false, true}) {
        if (!shared && border > kBlockTokens) continue;  // the second border is like the first
        SCOPED_TRACE(std::to_string(n) + (shared ? " shared" : ""));
        Sequence sequence = Begin(0, text_, n, 128);
        std::optional<Sequence> other;
        if (shared) {
          cache().Fork(0, 1);
          other = GoOn(sequence, 1, text_, n);
        }
        // All of them wrong, then all behind the first four; three of these are kept.
        Sequence drafts = GoOn(sequence, 0, OtherEnd(n, 20), n);
        Step(model(), {{&drafts, kRollbackTokens}});
        drafts = GoOn(sequence, 0, OtherEnd(n + 4, 21), n);
        Step(model(), {{&drafts, kRollbackTokens}});
        sequence = GoOn(drafts, 0, text_, n + 3);
        Step(model(), {{&sequence, 10}});
        if (other) {
          Step(model(), {{&*other, 5}, {&sequence, 1}});
          Step(model(), {{&*other, 20}});
          ExpectAsAlone(*other, "the other");
        }
        ExpectAsAlone(sequence, "the sequence");
      }
    }
  }
}

// The draft head's keys do not depend on how its rows came in.
TEST_P(Sharing, DraftRowsOfKeptStreams) {
  for (const std::int64_t piece : {1, 5, 64, 127, 128, 129, 200}) {
    Sequence sequence(model().config(), 0, text_);
    while (sequence.left() > 0 && !HasFatalFailure()) {
      if (sequence.done > 0) {
        DraftKept(model(), {&sequence});
      }
      Step(model(), {{&sequence, std::min(piece, sequence.left())}}, NextToken::kUnknown);
    }
    ExpectAsAlone(sequence, "pieces of " + std::to_string(piece));
  }
}

// n_drafts wrong tokens behind the newest one, each from the draft before it.
void DraftWrong(Model& model, const Sequence& sequence, std::int64_t n_drafts, std::int32_t row) {
  std::int64_t n_chosen = 0;
  const auto choose = [&](const DraftLogits& /*found*/, std::span<Token> tokens) {
    const auto position = static_cast<Token>(sequence.done + n_chosen);
    const Token right = sequence.tokens[static_cast<std::size_t>(sequence.done)];
    tokens[0] = (right + 1 + position) % static_cast<Token>(model.config().vocab_size);
    ++n_chosen;
    return Status();
  };
  // The drafter does not run behind the last of its drafts.
  const std::vector<DraftRequest> requests = {{.row = row, .n_drafts = n_drafts + 1}};
  const Status ran = model.drafter()->Propose(requests, {}, choose);
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_EQ(n_chosen, n_drafts + 1);
}

TEST_P(Sharing, WrongDraftsLeaveNothingBehind) {
  for (const std::int64_t piece : {1, 3, 8}) {
    Sequence sequence = Begin(0, text_, 100, kSharedTokens);
    for (std::int64_t step = 0; sequence.done < kSharedTokens - 10 && !HasFatalFailure(); ++step) {
      Step(model(), {{&sequence, piece}});
      DraftWrong(model(), sequence, std::min<std::int64_t>(step % 8, kRollbackTokens - 1),
                 static_cast<std::int32_t>(piece - 1));
      // Some of the steps test the drafts.
      if (step % 3 == 0) {
        Sequence drafts = sequence;
        drafts.tokens = OtherEnd(sequence.done, 30);
        Step(model(), {{&drafts, std::min(1 + step % kRollbackTokens, drafts.left())}});
      }
    }
    ExpectAsAlone(sequence, "pieces of " + std::to_string(piece));
  }
}

// A draft writes behind the newest position; who shares that block does not see it.
TEST_P(Sharing, DraftsOfOneForkDoNotReachTheOther) {
  for (const std::int64_t n : {120, 125, 127, 128}) {
    SCOPED_TRACE(n);
    Sequence first = Begin(0, text_, n, 128);
    cache().Fork(0, 1);
    Sequence second = GoOn(first, 1, OtherEnd(n, 40), n);
    DraftKept(model(), {&second, &first});
    DraftWrong(model(), first, kRollbackTokens - 1, 1);
    Step(model(), {{&second, 4}, {&first, 6}});
    DraftWrong(model(), second, kRollbackTokens - 1, 3);
    Step(model(), {{&first, 20}, {&second, 20}});
    ExpectAsAlone(first, "the first");
    ExpectAsAlone(second, "the second");
  }
}

// The reference backend is slow: one short text.
class ReferenceSharing : public Sharing {};

TEST_P(ReferenceSharing, BlocksAndForks) {
  HeldBlocks blocks(cache());
  Sequence first = Begin(0, text_, 130, kSharedTokens, &blocks);
  blocks.AttachTo(1, 1);
  Sequence second = GoOn(first, 1, OtherEnd(128, 50), 128);
  cache().Fork(0, 2);
  Sequence third = GoOn(first, 2, OtherEnd(130, 51), 130);
  DraftKept(model(), {&second, &third});
  Step(model(), {{&first, 1}, {&second, 3}, {&third, 7}});
  Step(model(), {{&second, 2}, {&first, 6}});
  for (const Sequence* sequence : {&first, &second, &third}) {
    ExpectAsAlone(*sequence, "slot " + std::to_string(sequence->slot));
  }
}

constexpr auto kRemoteAwaited = testing::TestMemory::kRemoteAwaited;

std::string TestName(const ::testing::TestParamInfo<SharingCase>& test) {
  const SharingCase& c = test.param;
  return std::string(c.checkpoint) + "_" + (c.isa ? std::string(Name(*c.isa)) : "widest") +
         (c.memory == testing::TestMemory::kHost ? "" : Name(c.memory));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Sharing,
                         ::testing::Values(SharingCase{"fairy", nullptr, Isa::kAvx2},
                                           SharingCase{"fairy", nullptr, {}, kRemoteAwaited},
                                           SharingCase{"flash_mini", "oracle/flash-mini", {}},
                                           SharingCase{"base_mini", "oracle/base-mini", {}},
                                           SharingCase{"pro_mini", "oracle/pro-mini", {}}),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Checkpoints, ReferenceSharing,
                         ::testing::Values(SharingCase{"fairy", nullptr, Isa::kScalar}), TestName);

}  // namespace
}  // namespace fathom::model
