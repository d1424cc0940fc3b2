#include "measure/slice/write_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/float_types.h"
#include "measure/slice/tokenizer_json.h"
#include "model/draft/dspark.h"
#include "model/draft/mtp.h"
#include "tests/measure/slice/tiny.h"
#include "tests/model/draft_logits.h"
#include "tests/model/test_model.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

SliceOptions Tiny(std::vector<int> ratios, const DrafterKind* draft = nullptr) {
  return {.config =
              testing::TinyConfig({.ratios = std::move(ratios), .vocab_size = 300, .draft = draft}),
          .seed = 7};
}

Result<SliceSummary> Write(const fs::path& directory, const SliceOptions& options,
                           int n_threads = 2) {
  ThreadTeam team(n_threads);
  return WriteSlice(directory, options, team, {});
}

void WriteOrFail(const fs::path& directory, const SliceOptions& options, int n_threads = 2) {
  const Result<SliceSummary> written = Write(directory, options, n_threads);
  ASSERT_TRUE(written) << written.error().message;
}

std::map<std::string, std::string> Files(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files[entry.path().filename()] = testing::ReadFile(entry.path());
  }
  return files;
}

TEST(WriteSliceTest, TheOptionsDecideEveryByte) {
  const testing::TemporaryDirectory parent;
  SliceOptions options = Tiny({4, 128}, &kMtpDrafter);
  WriteOrFail(parent.path() / "one", options, 1);
  WriteOrFail(parent.path() / "two", options, 2);
  const auto one = Files(parent.path() / "one");
  EXPECT_EQ(one.size(), 5u + 5u);  // shards: embedding, two layers, head, MTP
  EXPECT_TRUE(one == Files(parent.path() / "two"));
  options.seed = 8;
  WriteOrFail(parent.path() / "other", options);
  const auto other = Files(parent.path() / "other");
  for (const auto& [name, bytes] : one) {
    EXPECT_EQ(bytes != other.at(name), name.ends_with(".safetensors")) << name;
  }
}

TEST(WriteSliceTest, CountsWhatItWrote) {
  const testing::TemporaryDirectory directory;
  const Result<SliceSummary> written = Write(directory.path(), Tiny({0, 4}));
  ASSERT_TRUE(written) << written.error().message;
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  std::int64_t bytes = 0;
  for (const Checkpoint::Tensor& tensor : checkpoint->tensors()) {
    bytes += static_cast<std::int64_t>(tensor.view.bytes.size());
  }
  EXPECT_EQ(written->bytes, bytes);
  EXPECT_EQ(written->n_tensors, static_cast<std::int64_t>(checkpoint->tensors().size()));
  EXPECT_EQ(written->n_shards, static_cast<std::int64_t>(checkpoint->shards().size()));
}

TEST(WriteSliceTest, ShardsAreCutBetweenTensors) {
  const testing::TemporaryDirectory parent;
  SliceOptions options = Tiny({4});
  WriteOrFail(parent.path() / "whole", options);
  options.max_shard_bytes = 300'000;
  WriteOrFail(parent.path() / "cut", options);
  const Result<Checkpoint> whole = Checkpoint::Open(parent.path() / "whole");
  const Result<Checkpoint> cut = Checkpoint::Open(parent.path() / "cut");
  ASSERT_TRUE(whole && cut);
  EXPECT_EQ(whole->shards().size(), 3u);
  EXPECT_GT(cut->shards().size(), 3u);
  for (const auto& entry : fs::directory_iterator(parent.path() / "cut")) {
    EXPECT_LT(entry.file_size(), 300'000u + 20'000u) << entry.path();  // and the header
  }
  for (const Checkpoint::Tensor& tensor : whole->tensors()) {
    const TensorView* other = cut->Find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(tensor.view.bytes, other->bytes)) << tensor.name;
  }
}

std::vector<Token> Tokens(std::int64_t count) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>(3 + i * 37 % 256));
  }
  return tokens;
}

// The root mean square; NaN or infinity if one of them is in the row.
template <class T>
double RootMeanSquare(std::span<const T> row) {
  double squares = 0;
  for (const T value : row) {
    const double x = [&] {
      if constexpr (std::is_same_v<T, Bf16>) {
        return ToFloat(value);
      } else {
        return value;
      }
    }();
    squares += x * x;
  }
  return std::sqrt(squares / static_cast<double>(row.size()));
}

TEST(WriteSliceTest, TheModelRunsWithItsDraftHead) {
  const testing::TemporaryDirectory directory;
  WriteOrFail(directory.path(), Tiny({0, 4, 128}, &kMtpDrafter));
  testing::TestModel loaded(directory.path(), {.max_context = 300, .with_draft = true});
  Model& model = loaded.model();
  EXPECT_TRUE(model.warnings().empty());
  const std::vector<Token> tokens = Tokens(200);
  Batch batch;
  batch.Add(0, 0, tokens);
  const Status ran = model.Forward(batch);
  ASSERT_TRUE(ran) << ran.error().message;
  const std::vector<std::int32_t> rows = {0, 1, 130, 199};
  const Matrix<const float> logits = *model.Logits(rows);
  // The norm makes the streams 1 on average; the head multiplies their spread by 4.
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    EXPECT_NEAR(RootMeanSquare<float>(logits.RowSpan(row)), 4, 1) << row;
  }
  Batch next;
  next.Add(0, 0, std::span(tokens).subspan(1, 3));
  const Status drafted =
      model.drafter()->Commit(next, std::vector<std::int32_t>{0, 1, 2}, StreamSource::kForward);
  ASSERT_TRUE(drafted) << drafted.error().message;
  const std::vector<float> draft =
      testing::LogitsOfDrafts(*model.drafter(), std::vector<std::int32_t>{2});
  EXPECT_NEAR(RootMeanSquare<float>(draft), 4, 1);
}

TEST(WriteSliceTest, TheModelRunsWithHashLayers) {
  const testing::TemporaryDirectory directory;
  SliceOptions options = Tiny({0, 4, 128}, nullptr);
  options.config.num_hash_layers = 2;
  WriteOrFail(directory.path(), options);
  testing::TestModel loaded(directory.path(), {.max_context = 300});
  EXPECT_TRUE(loaded.model().warnings().empty());
  Batch batch;
  batch.Add(0, 0, Tokens(200));
  const Status ran = loaded.model().Forward(batch);
  ASSERT_TRUE(ran) << ran.error().message;
}

TEST(WriteSliceTest, TheModelRunsWithItsDSparkDrafter) {
  const testing::TemporaryDirectory directory;
  WriteOrFail(directory.path(), Tiny({0, 4, 128, 4}, &kDSparkDrafter));
  testing::TestModel loaded(directory.path(), {.max_context = 300, .with_draft = true});
  Model& model = loaded.model();
  EXPECT_TRUE(model.warnings().empty());
  const std::vector<Token> tokens = Tokens(200);
  Batch batch;
  batch.Add(0, 0, tokens);
  const Status ran = model.Forward(batch);
  ASSERT_TRUE(ran) << ran.error().message;
  Batch next;
  next.Add(0, 199, std::vector<Token>{3});
  const Status committed =
      model.drafter()->Commit(next, std::vector<std::int32_t>{199}, StreamSource::kForward);
  ASSERT_TRUE(committed) << committed.error().message;
  // Logits of the head, and a bias of the tokens before with a spread of 1.
  const std::vector<float> draft =
      testing::LogitsOfDrafts(*model.drafter(), std::vector<std::int32_t>{0});
  EXPECT_NEAR(RootMeanSquare<float>(draft), 4, 1);
}

TEST(WriteSliceTest, StreamsKeepTheirSizeInAnyDepth) {
  constexpr std::int64_t kTokens = 64;
  std::vector<int> ratios;
  for (const int ratio : {0, 4, 128}) {
    ratios.insert(ratios.end(), 12, ratio);
  }
  const testing::TemporaryDirectory directory;
  WriteOrFail(directory.path(), Tiny(ratios));
  testing::TestModel loaded(directory.path(), {.max_context = kTokens});
  Model& model = loaded.model();
  const std::int64_t width = model.config().hc_mult * model.config().hidden_size;
  // The streams begin as the rows of the embedding.
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  const auto* embedding = checkpoint->Find("embed.weight")->As<Bf16>();
  const std::vector<Token> tokens = Tokens(kTokens);
  std::vector<Bf16> streams;
  for (const Token token : tokens) {
    for (std::int64_t i = 0; i < width; ++i) {
      streams.push_back(
          embedding[token * model.config().hidden_size + i % model.config().hidden_size]);
    }
  }
  Batch batch;
  batch.Add(0, 0, tokens);
  const Matrix<Bf16> rows{streams.data(), kTokens, width};
  for (std::int64_t layer = 0; layer < model.config().num_hidden_layers; ++layer) {
    const Status ran = model.RunLayer(layer, batch, rows);
    ASSERT_TRUE(ran) << ran.error().message;
    for (std::int64_t row = 0; row < kTokens; ++row) {
      const double size = RootMeanSquare<Bf16>(Matrix<const Bf16>(rows).RowSpan(row));
      ASSERT_TRUE(size > 0.1 && size < 10) << size << " at row " << row << ", layer " << layer;
    }
  }
}

// A call that was refused or broken off leaves nothing behind.
void ExpectUntouched(const testing::TemporaryDirectory& parent) {
  EXPECT_TRUE(fs::is_empty(parent.path()))
      << fs::directory_iterator(parent.path())->path() << " is left";
}

void ExpectError(const Result<SliceSummary>& written, std::string_view part_of_message) {
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr(std::string(part_of_message)));
}

TEST(WriteSliceTest, ImpossibleConfigurationsAreRefused) {
  const testing::TemporaryDirectory parent;
  const fs::path directory = parent.path() / "new";
  SliceOptions options = Tiny({4, 5});
  ExpectError(Write(directory, options),
              "compress_ratios: expected 0, 4 or 128, found 5 at position 1");
  options = Tiny({4});
  options.config.n_routed_experts = 1;
  ExpectError(Write(directory, options),
              "num_experts_per_tok: expected at most n_routed_experts 1, found 2");
  options = Tiny({4});
  options.config.vocab_size = SmallestVocabulary() - 1;
  ExpectError(Write(directory, options),
              fmt::format("vocab_size: expected {} to {}, found {}", SmallestVocabulary(),
                          LargestVocabulary(), SmallestVocabulary() - 1));
  ExpectUntouched(parent);
}

TEST(WriteSliceTest, DirectoriesWithSomethingInThemAreLeftAlone) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.path() / "notes.txt", "mine");
  ExpectError(Write(directory.path(), Tiny({4})),
              "expected an empty directory or none, found notes.txt in it");
  ExpectError(Write(directory.path() / "notes.txt", Tiny({4})), "expected an empty directory");
  EXPECT_EQ(Files(directory.path()).size(), 1u);
}

TEST(WriteSliceTest, PlacesThatCannotBeWrittenAreNamed) {
  const testing::TemporaryDirectory parent;
  testing::WriteFile(parent.path() / "file", "");
  ExpectError(Write(parent.path() / "file" / "slice", Tiny({4})), "cannot create the directory");
  ExpectError(Write("/proc/slice", Tiny({4})), "cannot create the directory");
}

TEST(WriteSliceTest, MoreThanTheDiskHoldsIsRefusedAtOnce) {
  const testing::TemporaryDirectory parent;
  SliceOptions options = Tiny({4});
  options.config.hidden_size = 65'536;
  options.config.moe_intermediate_size = 65'536;
  options.config.n_routed_experts = 8'192;  // 56 PB
  ExpectError(Write(parent.path() / "new", options), "bytes are needed");
  ExpectUntouched(parent);
}

TEST(WriteSliceTest, AFailedWriteLeavesNothing) {
  const testing::TemporaryDirectory parent;
  // Files may grow to 400 kB: enough for the embedding, not for a layer.
  rlimit old_limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit = {.rlim_cur = 400'000, .rlim_max = old_limit.rlim_max};
  auto* const old_handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Result<SliceSummary> written = Write(parent.path() / "new", Tiny({4}));
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  ::signal(SIGXFSZ, old_handler);
  ExpectError(written, "model-00002-of-00003.safetensors: cannot write");
  ExpectUntouched(parent);
}

TEST(WriteSliceTest, ItCanBeStopped) {
  const testing::TemporaryDirectory directory;
  ThreadTeam team(1);
  std::vector<double> shares;
  const Result<SliceSummary> written =
      WriteSlice(directory.path(), Tiny({4}), team, [&](double share) {
        shares.push_back(share);
        return shares.size() < 2;
      });
  ExpectError(written, "interrupted");
  EXPECT_EQ(shares.size(), 2u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  ExpectUntouched(directory);
}

TEST(WriteSliceTest, ProgressEndsWithAll) {
  const testing::TemporaryDirectory directory;
  ThreadTeam team(1);
  double last = 0;
  const Result<SliceSummary> written =
      WriteSlice(directory.path(), Tiny({0}), team, [&](double share) {
        EXPECT_GE(share, last);
        last = share;
        return true;
      });
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(last, 1);
}

}  // namespace
}  // namespace fathom::measure
