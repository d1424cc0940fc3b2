// The promise of docs/numerics.md, end to end: the same tokens give the same bytes of logits,
// however they are cut, whatever they share a batch with, on any number of threads and with any
// instruction set of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

using testing::Sequence;

constexpr std::int64_t kTokens = 270;  // two windows, two rows of ratio 128, more rows than top-k
constexpr std::int64_t kScalarTokens = 137;  // the reference backend is slow; one row of ratio 128
constexpr std::int64_t kSlots = 4;

class Bits : public ::testing::TestWithParam<testing::CheckpointCase> {
 protected:
  void SetUp() override {
    directory_ = GetParam().Directory();
    if (!directory_) {
      GTEST_SKIP() << testing::kNoSharedData;
    }
    one_thread_ = Load({.n_threads = 1});
    tokens_ = testing::RandomTokens(model().config(), kTokens, 1);
    expected_.emplace(testing::RunAlone(model(), tokens_, {kTokens}));
  }

  std::unique_ptr<testing::TestModel> Load(const testing::TestBackend& backend) const {
    return std::make_unique<testing::TestModel>(*directory_,
                                                ModelOptions{.max_sequences = kSlots,
                                                             .max_context = kTokens,
                                                             .max_batch_tokens = kTokens,
                                                             .max_logit_rows = 32,
                                                             .with_draft = true},
                                                backend);
  }
  // On one thread with the widest instruction set.
  Model& model() { return one_thread_->model(); }

  void ExpectSame(const Sequence& actual, const std::string& what) const {
    testing::ExpectSameBits(*expected_, actual, kTokens, what);
  }

  std::optional<std::filesystem::path> directory_;
  std::unique_ptr<testing::TestModel> one_thread_;
  std::vector<Token> tokens_;
  std::optional<Sequence> expected_;  // all tokens at once, alone, in slot 0
};

TEST_P(Bits, AnyChunkSize) {
  for (const std::int64_t chunk : {1, 2, 7, 64, 128, 129}) {
    ExpectSame(testing::RunAlone(model(), tokens_, {chunk}), "chunks of " + std::to_string(chunk));
  }
}

TEST_P(Bits, RandomChunks) {
  std::mt19937 random(2);
  for (int i = 0; i < 10; ++i) {
    std::vector<std::int64_t> chunks;
    for (std::int64_t sum = 0; sum < kTokens; sum += chunks.back()) {
      // Small ones as often as large ones.
      const std::uint32_t largest = 1u << (random() % 9);
      chunks.push_back(1 + random() % largest);
    }
    ExpectSame(testing::RunAlone(model(), tokens_, chunks), "random chunks " + std::to_string(i));
  }
}

TEST_P(Bits, AnyNumberOfThreads) {
  for (const int n_threads : {2, 3}) {
    const auto loaded = Load({.n_threads = n_threads});
    for (const std::int64_t chunk : {std::int64_t{7}, kTokens}) {
      ExpectSame(testing::RunAlone(loaded->model(), tokens_, {chunk}),
                 std::to_string(n_threads) + " threads, chunks of " + std::to_string(chunk));
    }
  }
}

TEST_P(Bits, AnyInstructionSet) {
  for (const Isa isa : AvailableIsas()) {
    const std::int64_t n = isa == Isa::kScalar ? kScalarTokens : kTokens;
    const auto loaded = Load({.isa = isa, .n_threads = 1});
    const std::vector<Token> tokens(tokens_.begin(), tokens_.begin() + n);
    testing::ExpectSameBits(*expected_, testing::RunAlone(loaded->model(), tokens, {100, 1, 20}), n,
                            std::string(Name(isa)));
  }
}

// Nothing above the kernels reads memory of a device, or what it has not waited for.
TEST_P(Bits, AnyMemory) {
  for (const testing::TestMemory memory :
       {testing::TestMemory::kRemote, testing::TestMemory::kRemoteAwaited}) {
    const auto loaded = Load({.memory = memory});
    for (const std::int64_t chunk : {std::int64_t{7}, kTokens}) {
      ExpectSame(testing::RunAlone(loaded->model(), tokens_, {chunk}),
                 Name(memory) + " memory, chunks of " + std::to_string(chunk));
    }
  }
}

// Sequences that come and go in the slots of one model; slot `watched` runs the known tokens.
class Company {
 public:
  Company(Model& model, std::uint32_t seed) : model_(model), random_(seed) {
    for (std::int32_t slot = 0; slot < kSlots; ++slot) {
      others_.push_back(Stranger(slot));
    }
  }

  Sequence Run(std::int32_t watched, const std::vector<Token>& tokens) {
    Sequence sequence(model_.config(), watched, tokens);
    while (sequence.left() > 0 && !::testing::Test::HasFatalFailure()) {
      std::vector<testing::Piece> pieces;
      std::int64_t room = kTokens;
      const bool runs = random_() % 4 != 0;
      for (Sequence& other : others_) {
        const bool is_watched = other.slot == watched;
        if (is_watched ? runs : random_() % 3 != 0) {
          Sequence& next = is_watched ? sequence : other;
          pieces.push_back({&next, Length(next, room)});
          room -= pieces.back().n_tokens;
        }
      }
      std::shuffle(pieces.begin(), pieces.end(), random_);
      if (!pieces.empty()) {
        testing::Step(model_, pieces);
      }
      for (Sequence& other : others_) {
        if (other.left() == 0) {
          other = Stranger(other.slot);
        }
      }
    }
    others_[static_cast<std::size_t>(watched)] = Stranger(watched);
    return sequence;
  }

 private:
  Sequence Stranger(std::int32_t slot) {
    const std::int64_t length = 2 + random_() % 150;
    return {model_.config(), slot,
            testing::RandomTokens(model_.config(), length, static_cast<std::uint32_t>(random_()))};
  }
  std::int64_t Length(const Sequence& sequence, std::int64_t room) {
    const std::int64_t wanted = random_() % 2 == 0 ? 1 : 1 + random_() % 60;
    return std::min({wanted, sequence.left(), room - kSlots});
  }

  Model& model_;
  std::mt19937 random_;
  std::vector<Sequence> others_;
};

TEST_P(Bits, AnyCompany) {
  Company company(model(), 3);
  for (std::int32_t slot = 0; slot < kSlots; ++slot) {
    ExpectSame(company.Run(slot, tokens_), "company in slot " + std::to_string(slot));
  }
}

// Positions computed again: after other tokens (rejected drafts), and with the same ones.
TEST_P(Bits, AfterRollback) {
  std::mt19937 random(4);
  for (int i = 0; i < 4; ++i) {
    Sequence sequence(model().config(), 1, tokens_);
    std::int64_t newest = 0;
    const auto run = [&](Sequence& which, std::int64_t most) {
      const std::int64_t n = 1 + static_cast<std::int64_t>(random()) % most;
      testing::Step(model(), {{&which, std::min(which.left(), n)}});
      newest = std::max(newest, which.done);
    };
    while (sequence.left() > 0 && !HasFatalFailure()) {
      const std::int64_t taken_back = newest - sequence.done;
      if (taken_back < kRollbackTokens) {
        Sequence drafts = sequence;
        for (std::size_t t = static_cast<std::size_t>(sequence.done); t < tokens_.size(); ++t) {
          drafts.tokens[t] = (tokens_[t] + 1) % static_cast<Token>(model().config().vocab_size);
        }
        run(drafts, kRollbackTokens - taken_back);
      }
      run(sequence, 40);
      const std::int64_t back_to =
          newest - static_cast<std::int64_t>(random()) % (kRollbackTokens + 1);
      sequence.done = std::min(sequence.done, std::max<std::int64_t>(0, back_to));
      run(sequence, 20);
    }
    ExpectSame(sequence, "rollback " + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Bits,
                         ::testing::Values(testing::kFairy, testing::kBaseMini, testing::kProMini),
                         testing::NameOfCase);

}  // namespace
}  // namespace fathom::model
