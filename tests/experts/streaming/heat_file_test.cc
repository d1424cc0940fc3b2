// Uses of experts that are kept from run to run.
#include "experts/streaming/heat_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "experts/expert_parts.h"
#include "experts/streaming/streamed_experts.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TestModel;

const std::string kMine(32, 'a'), kOther(32, 'b');

class HeatFile : public ::testing::Test {
 protected:
  HeatFile()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("fathom_heat_" +
                 std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))),
        path_(folder_ / "some.heat") {
    std::filesystem::create_directories(folder_);
  }
  ~HeatFile() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_, path_;
};

TEST_F(HeatFile, ReadsWhatWasWritten) {
  EXPECT_THAT(*ReadHeat(path_, kMine, 3), IsEmpty());
  ASSERT_TRUE(WriteHeat(path_, kMine, 3, std::vector<std::uint32_t>{1, 2, 3, 4, 5, 4095}));
  EXPECT_THAT(*ReadHeat(path_, kMine, 3), ElementsAre(1, 2, 3, 4, 5, 4095));
  ASSERT_TRUE(WriteHeat(path_, kMine, 3, std::vector<std::uint32_t>{9, 8, 7}));
  EXPECT_THAT(*ReadHeat(path_, kMine, 3), ElementsAre(9, 8, 7));
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "no temporary file stays";
}

TEST_F(HeatFile, RefusesThoseOfOthers) {
  ASSERT_TRUE(WriteHeat(path_, kMine, 3, std::vector<std::uint32_t>{1, 2, 3}));
  for (const auto& read : {ReadHeat(path_, kOther, 3), ReadHeat(path_, kMine, 1)}) {
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidData);
    EXPECT_THAT(read.error().message, HasSubstr("another checkpoint"));
  }
}

TEST_F(HeatFile, RefusesDamage) {
  ASSERT_TRUE(WriteHeat(path_, kMine, 3, std::vector<std::uint32_t>{1, 2, 3}));
  const std::string whole = *ReadFile(path_, 1000);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    ASSERT_TRUE(WriteFile(path_, damaged));
    EXPECT_FALSE(ReadHeat(path_, kMine, 3)) << "byte " << i;
    ASSERT_TRUE(WriteFile(path_, whole.substr(0, i)));
    EXPECT_FALSE(ReadHeat(path_, kMine, 3)) << i << " bytes";
  }
}

// --- Streamed experts ---

constexpr std::int64_t kSlots = 20;

std::unique_ptr<TestModel> LoadWith(StreamingOptions streaming) {
  streaming.slots = kSlots;
  streaming.n_read_threads = 4;
  ModelOptions options = {.max_context = 64, .max_batch_tokens = 8, .max_logit_rows = 8};
  options.parts = StreamedParts(std::move(streaming));
  return std::make_unique<TestModel>(testing::ProjectPath("models/fairy"), options);
}

// The counts of a run of the tokens.
StreamingCounts CountRun(TestModel& loaded, const std::vector<Token>& tokens) {
  testing::RunAlone(loaded.model(), tokens, {1});
  return StreamedExperts::FindIn(loaded.model())->counts();
}

TEST(StreamedHeat, TheNextRunBeginsWithTheExpertsThatWereUsedMost) {
  const std::vector<Token> tokens(30, 7);
  std::vector<std::uint32_t> heat;
  int n_saved = 0;
  const auto save = [&](std::span<const std::uint32_t> uses) {
    heat.assign(uses.begin(), uses.end());
    ++n_saved;
  };
  StreamingCounts cold;
  {
    const auto loaded = LoadWith({.save_heat = save});
    cold = CountRun(*loaded, tokens);
    EXPECT_EQ(n_saved, 0) << "ten minutes have not passed";
  }
  EXPECT_EQ(n_saved, 1);
  std::int64_t sum = 0;
  for (const std::uint32_t uses : heat) sum += uses;
  EXPECT_EQ(sum, cold.uses());
  {
    const auto loaded = LoadWith({.heat = heat, .save_heat = save, .save_interval = {}});
    const StreamingCounts warm = CountRun(*loaded, tokens);
    EXPECT_GT(warm.hits(), cold.hits());
    EXPECT_EQ(n_saved, 1 + static_cast<int>(tokens.size()));
  }
}

TEST(StreamedHeat, ChangesNoBit) {
  const auto plain = LoadWith({});
  const auto tokens = testing::RandomTokens(plain->model().config(), 40, 5);
  const testing::Sequence expected = testing::RunAlone(plain->model(), tokens, {8});
  const std::size_t n = static_cast<std::size_t>(plain->model().config().num_hidden_layers + 1) *
                        static_cast<std::size_t>(plain->model().config().n_routed_experts);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  for (const std::size_t size : {n, n + 1}) {  // the second is that of another model
    const auto loaded = LoadWith({.heat = std::vector<std::uint32_t>(size, 5), .warn = warn});
    testing::ExpectSameBits(expected, testing::RunAlone(loaded->model(), tokens, {1}), 40, "heat");
  }
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("they are ignored")));
}

}  // namespace
}  // namespace fathom::experts
