// The ranges of experts cover their tensors, wherever these lie.
#include "experts/streaming/expert_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/pages.h"
#include "checkpoint/file_block_reader.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

using testing::TensorSpec;

constexpr std::int64_t kRows = 96, kColumns = 128;
constexpr int kExpertsOfFile = 3;

// A tensor of expert e: w1, w2, w3 with their scales.
TensorSpec MakeTensor(int e, int matrix, bool scales) {
  return {fmt::format("layers.0.ffn.experts.{}.w{}.{}", e, matrix, scales ? "scale" : "weight"),
          scales ? DType::kF8E8M0 : DType::kI8,
          {kRows, scales ? kColumns / 32 : kColumns / 2}};
}

// A checkpoint of experts and the expert weights bound to it.
class ExpertCheckpoint {
 public:
  // Tensors in this order, the i-th in shard i * n_shards / n; `shift`: bytes in front of them.
  ExpertCheckpoint(std::vector<TensorSpec> tensors, std::size_t n_shards, std::int64_t shift) {
    std::vector<std::pair<std::string, std::string>> names;
    std::int64_t total = 0;
    for (std::size_t shard = 0; shard < n_shards; ++shard) {
      const std::string file = fmt::format("model-{}.safetensors", shard);
      std::vector<TensorSpec> mine;
      if (shift > 0) mine.push_back({fmt::format("shift{}", shard), DType::kU8, {shift}});
      for (std::size_t i = shard * tensors.size() / n_shards;
           i < (shard + 1) * tensors.size() / n_shards; ++i) {
        mine.push_back(tensors[i]);
      }
      std::string data;
      for (const TensorSpec& tensor : mine) {
        names.emplace_back(tensor.name, file);
        total += testing::Bytes(tensor);
        for (std::int64_t i = 0; i < testing::Bytes(tensor); ++i) {
          data.push_back(static_cast<char>(random_() % 255));
        }
      }
      testing::WriteFile(directory_.path() / file,
                         testing::SafetensorsBytes(testing::SafetensorsHeaderText(mine), data));
    }
    testing::WriteIndex(directory_.path(), names, total);
    checkpoint_ = *Checkpoint::Open(directory_.path());
    for (int e = 0; e < kExpertsOfFile; ++e) {
      experts_.push_back({.w1 = Bind(e, 1), .w2 = Bind(e, 2), .w3 = Bind(e, 3)});
    }
  }

  // Reads all experts as a pool would, and compares each tensor with the mapping.
  void ExpectSameBytes(std::size_t most_ranges) {
    const std::span<const ExpertWeights> block = experts_;
    const Result<ExpertFiles> files = ExpertFiles::Create(checkpoint_, {&block, 1});
    ASSERT_TRUE(files) << files.error().message;
    ASSERT_EQ(files->n_keys(), experts_.size());
    const auto reader = FileBlockReader::Open(checkpoint_, {});
    ASSERT_TRUE(reader);
    for (std::size_t key = 0; key < files->n_keys(); ++key) {
      const auto memory = PageMemory::Allocate(files->slot_bytes());
      ASSERT_TRUE(memory);
      EXPECT_LE(files->Ranges(key).size(), most_ranges);
      EXPECT_LE(files->SizeInBytes(key), files->slot_bytes());
      for (const FileRange& range : files->Ranges(key)) {
        EXPECT_EQ(range.offset % 4096, 0);
        EXPECT_EQ(range.bytes % 4096, 0);
        EXPECT_EQ(range.in_slot % 4096, 0);
        const Status read =
            ReadBlocks(**reader, range.file, range.offset,
                       memory->bytes().subspan(static_cast<std::size_t>(range.in_slot),
                                               static_cast<std::size_t>(range.bytes)),
                       range.n_needed);
        ASSERT_TRUE(read) << read.error().message;
      }
      const ExpertWeights placed = files->InSlot(key, experts_[key], memory->bytes().data());
      ExpectSame(experts_[key].w1, placed.w1);
      ExpectSame(experts_[key].w2, placed.w2);
      ExpectSame(experts_[key].w3, placed.w3);
    }
  }

 private:
  Weight Bind(int e, int matrix) const {
    return {.format = WeightFormat::kFp4,
            .data = checkpoint_.Find(MakeTensor(e, matrix, false).name)->bytes.data(),
            .scales = checkpoint_.Find(MakeTensor(e, matrix, true).name)->bytes.data(),
            .n = kRows,
            .k = kColumns};
  }
  static void ExpectSame(const Weight& mapped, const Weight& placed) {
    for (const auto& [a, b] : {std::pair(mapped.Bytes(), placed.Bytes()),
                               std::pair(mapped.ScaleBytes(), placed.ScaleBytes())}) {
      ASSERT_NE(a.data(), b.data());
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
    }
  }

  std::mt19937 random_{3};
  testing::TemporaryDirectory directory_;
  Checkpoint checkpoint_;
  std::vector<ExpertWeights> experts_;
};

// The order of the published files: weights of an expert, then its scales elsewhere.
std::vector<TensorSpec> PublishedOrder() {
  std::vector<TensorSpec> tensors;
  for (const bool scales : {false, true}) {
    for (int e = 0; e < kExpertsOfFile; ++e) {
      for (const int matrix : {1, 2, 3}) tensors.push_back(MakeTensor(e, matrix, scales));
    }
  }
  return tensors;
}

TEST(ExpertFiles, PublishedOrderIsTwoRanges) {
  for (const std::int64_t shift : {0, 1, 8, 4095}) {
    ExpertCheckpoint(PublishedOrder(), 1, shift).ExpectSameBytes(2);
  }
}

TEST(ExpertFiles, AnyOrderInAnyShards) {
  std::mt19937 random(1);
  for (const std::size_t n_shards : {1, 2, 3, 5}) {
    for (const std::int64_t shift : {0, 1, 8, 4095}) {
      std::vector<TensorSpec> tensors = PublishedOrder();
      std::shuffle(tensors.begin(), tensors.end(), random);
      ExpertCheckpoint(tensors, n_shards, shift).ExpectSameBytes(6);
    }
  }
}

TEST(ExpertFiles, AnExpertThatIsNotInTheFilesStays) {
  const std::byte elsewhere[kRows * kColumns] = {};
  const Weight weight = {.format = WeightFormat::kFp4,
                         .data = elsewhere,
                         .scales = elsewhere,
                         .n = kRows,
                         .k = kColumns};
  const ExpertWeights expert = {.w1 = weight, .w2 = weight, .w3 = weight};
  const std::span<const ExpertWeights> block = {&expert, 1};
  const Result<ExpertFiles> files = ExpertFiles::Create(Checkpoint(), {&block, 1});
  ASSERT_TRUE(files);
  EXPECT_EQ(files->slot_bytes(), 0);
  EXPECT_EQ(files->InSlot(0, expert, nullptr).w2.scales, elsewhere);
}

}  // namespace
}  // namespace fathom::experts
