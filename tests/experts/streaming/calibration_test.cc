// The way to read is chosen by what the disk does, not by what the page cache answers.
#include "experts/streaming/calibration.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "base/pages.h"
#include "checkpoint/file_block_reader.h"
#include "experts/expert_parts.h"
#include "experts/streaming/streamed_experts.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

using Ways = std::vector<Calibration>;

Calibration Direct(int n_threads, double speed) { return {true, n_threads, speed}; }
Calibration Buffered(int n_threads, double speed) { return {false, n_threads, speed}; }

void ExpectChosen(const Ways& measured, bool direct, int n_threads) {
  const Calibration chosen = ChooseReads(measured);
  EXPECT_EQ(chosen.direct, direct);
  EXPECT_EQ(chosen.n_threads, n_threads);
}

TEST(ChooseReads, TakesTheFewestThreadsOfTheFastest) {
  ExpectChosen({Direct(4, 80), Direct(8, 96), Direct(16, 97), Direct(32, 100)}, true, 8);
  ExpectChosen({Direct(4, 40), Direct(8, 60), Direct(16, 80), Direct(32, 100)}, true, 32);
  ExpectChosen({Buffered(4, 40), Buffered(8, 100), Buffered(16, 101)}, false, 8);
}

TEST(ChooseReads, BufferedReadsMustBeMuchFaster) {
  ExpectChosen({Direct(4, 100), Direct(8, 101), Buffered(8, 108)}, true, 4);
  ExpectChosen({Direct(4, 100), Direct(8, 101), Buffered(8, 120)}, false, 8);
}

TEST(ChooseReads, WithoutASpeedTakesWhatIsUsuallyGood) {
  ExpectChosen({Direct(4, 0), Buffered(8, 0), Direct(8, 0), Direct(16, 0)}, true, 8);
  ExpectChosen({Buffered(4, 0), Buffered(8, 0), Buffered(16, 0)}, false, 8);
}

// A checkpoint whose pages are all in the page cache, and stay there, as they are mapped.
class CachedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(testing::ProjectPath("models/fairy"), directory_.path() / "copy");
    ModelOptions options = {.max_sequences = 1, .max_context = 8, .max_batch_tokens = 8};
    options.parts = StreamedParts({.slots = 1000, .n_read_threads = 1, .calibration_seconds = 0});
    model_ = std::make_unique<testing::TestModel>(directory_.path() / "copy", options);
    checkpoint_ = *Checkpoint::Open(directory_.path() / "copy");
    reader_ = *FileBlockReader::Open(checkpoint_, {});
    for (const std::span<const std::byte> bytes : checkpoint_.Memory()) TouchPages(bytes);
  }
  Calibration Calibrate(ReadMode mode) {
    const auto found = CalibrateReads(*reader_, StreamedExperts::FindIn(model_->model())->files(),
                                      {.mode = mode, .calibration_seconds = 0.05});
    EXPECT_TRUE(found);
    return found.value_or(Calibration());
  }

  const testing::TemporaryDirectory directory_;
  std::unique_ptr<testing::TestModel> model_;
  Checkpoint checkpoint_;
  std::unique_ptr<FileBlockReader> reader_;
};

TEST_F(CachedCheckpoint, WhatThePageCacheAnswersDoesNotCount) {
  const Calibration found = Calibrate(ReadMode::kBuffered);
  EXPECT_FALSE(found.direct);
  EXPECT_EQ(found.bytes_per_second, 0);
  EXPECT_EQ(found.n_threads, 8);
}

TEST_F(CachedCheckpoint, DirectReadsAreChosen) {
  if (!reader_->IsDirect()) GTEST_SKIP() << "the file system refuses direct reads";
  const Calibration found = Calibrate(ReadMode::kMeasured);
  EXPECT_TRUE(found.direct);
  EXPECT_GT(found.bytes_per_second, 0);
}

}  // namespace
}  // namespace fathom::experts
