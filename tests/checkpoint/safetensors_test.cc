#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Names(std::span<const Checkpoint::Tensor> tensors) {
  std::vector<std::string> names;
  for (const Checkpoint::Tensor& tensor : tensors) {
    names.push_back(tensor.name);
  }
  return names;
}

TEST(Checkpoint, OpensTheEmbeddedModel) {
  Result<Checkpoint> opened = Checkpoint::Open(testing::ProjectPath("models/fairy"));
  ASSERT_TRUE(opened) << opened.error().message;
  const TensorView* before = opened->Find("layers.1.ffn.gate.tid2eid");
  const Checkpoint checkpoint = std::move(*opened);
  const TensorView* table = checkpoint.Find("layers.1.ffn.gate.tid2eid");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table, before) << "moving a checkpoint must keep its views";
  EXPECT_EQ(table->dtype, DType::kI64);
  EXPECT_THAT(table->shape, ElementsAre(4096, 2));
  EXPECT_EQ(table->bytes.size(), 4096u * 2 * 8);
  EXPECT_EQ(checkpoint.shards().size(), 9u);
  EXPECT_EQ(checkpoint.shards()[0].file, "model-00001-of-00009.safetensors");
  EXPECT_EQ(checkpoint.shards()[0].bytes, 2'097'272);
  EXPECT_EQ(checkpoint.Find("layers.1.ffn.gate"), nullptr);
  EXPECT_EQ(checkpoint.Find(""), nullptr);
}

TEST(Checkpoint, OpensTheOracles) {
  const auto oracle = testing::SharedData("oracle");
  if (!oracle) GTEST_SKIP() << testing::kNoSharedData;
  for (const char* name : {"flash-mini", "pro-mini", "base-mini"}) {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(*oracle / name);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->shards().size(), 8u);
    const Result<Checkpoint> golden = Checkpoint::Open(*oracle / name / "golden.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    ASSERT_NE(golden->Find("streams"), nullptr);
    EXPECT_EQ(golden->Find("streams")->dtype, DType::kBF16);
  }
}

// Published files have such tensors, so they must open.
TEST(Checkpoint, TellsWhichTensorsAreAligned) {
  const Result<Checkpoint> checkpoint = Checkpoint::Open(testing::ProjectPath("models/fairy"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  std::vector<std::string> misaligned;
  for (const Checkpoint::Tensor& tensor : checkpoint->tensors()) {
    if (!IsAligned(tensor.view)) {
      misaligned.push_back(tensor.name);
    }
  }
  EXPECT_THAT(misaligned, ElementsAre("layers.1.ffn.gate.tid2eid"));
}

TEST(Checkpoint, BytesAreThoseOfTheFile) {
  const testing::TemporaryDirectory directory;
  const std::string header = R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},)"
                             R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},)"
                             R"("scalar":{"dtype":"I8","shape":[],"data_offsets":[5,6]},)"
                             R"("empty":{"dtype":"F32","shape":[0,7],"data_offsets":[5,5]}})";
  testing::WriteFile(directory.path() / "x.safetensors",
                     testing::SafetensorsBytes(header, "012345"));
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path() / "x.safetensors");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(Names(checkpoint->tensors()), ElementsAre("a", "b", "empty", "scalar"));
  const TensorView* b = checkpoint->Find("b");
  EXPECT_EQ(std::string(b->As<char>(), b->bytes.size()), "234");
  EXPECT_TRUE(checkpoint->Find("empty")->bytes.empty());
  EXPECT_EQ(*checkpoint->Find("scalar")->As<char>(), '5');
}

TEST(Checkpoint, ReadsEveryDType) {
  const testing::TemporaryDirectory directory;
  std::vector<testing::TensorSpec> tensors;
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    tensors.push_back({std::string(Name(dtype)), dtype, {2, 4}});
  }
  testing::WriteSafetensors(directory.path() / "model.safetensors", tensors);
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  for (const testing::TensorSpec& tensor : tensors) {
    const TensorView* view = checkpoint->Find(tensor.name);
    ASSERT_NE(view, nullptr);
    EXPECT_EQ(view->dtype, tensor.dtype);
    EXPECT_EQ(static_cast<std::int64_t>(view->bytes.size()), testing::Bytes(tensor));
  }
}

TEST(Checkpoint, GivesBothOrders) {
  const testing::TemporaryDirectory directory;
  const std::vector<testing::TensorSpec> first = {{"z", DType::kU8, {1}}, {"m", DType::kU8, {1}}};
  const std::vector<testing::TensorSpec> second = {{"y", DType::kU8, {1}}, {"a", DType::kU8, {1}}};
  testing::WriteSafetensors(directory.path() / "1.safetensors", first);
  testing::WriteSafetensors(directory.path() / "2.safetensors", second);
  const std::vector<std::pair<std::string, std::string>> map = {{"a", "2.safetensors"},
                                                                {"m", "1.safetensors"},
                                                                {"y", "2.safetensors"},
                                                                {"z", "1.safetensors"}};
  testing::WriteIndex(directory.path(), map, 4);
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(Names(checkpoint->tensors()), ElementsAre("z", "m", "y", "a"));
  EXPECT_EQ(checkpoint->tensors()[2].shard, 1u);
  std::vector<std::string> by_name;
  for (const Checkpoint::Tensor* tensor : checkpoint->TensorsByName()) {
    by_name.push_back(tensor->name);
  }
  EXPECT_THAT(by_name, ElementsAre("a", "m", "y", "z"));
  EXPECT_EQ(checkpoint->FindIndex("y"), 2u);
}

TEST(Checkpoint, StripsTheModelPrefix) {
  const testing::TemporaryDirectory directory;
  const std::vector<testing::TensorSpec> tensors = {{"model.norm.weight", DType::kBF16, {2}},
                                                    {"head.weight", DType::kBF16, {2}}};
  testing::WriteSafetensors(directory.path() / "1.safetensors", tensors);
  const std::vector<std::pair<std::string, std::string>> map = {
      {"model.norm.weight", "1.safetensors"}, {"head.weight", "1.safetensors"}};
  testing::WriteIndex(directory.path(), map, 8);
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_NE(checkpoint->Find("norm.weight"), nullptr);
  EXPECT_EQ(checkpoint->Find("model.norm.weight"), nullptr);
}

TEST(Checkpoint, AcceptsATotalSizeWrittenAsAFloat) {
  const testing::TemporaryDirectory directory;
  const std::vector<testing::TensorSpec> tensors = {{"a", DType::kBF16, {4}}};
  testing::WriteSafetensors(directory.path() / "1.safetensors", tensors);
  testing::WriteFile(directory.path() / "model.safetensors.index.json",
                     R"({"metadata":{"total_size":8.0},"weight_map":{"a":"1.safetensors"}})");
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
}

}  // namespace
}  // namespace fathom::checkpoint
