// The inventory: against the tests' own, and against the sizes of docs/spec/checkpoint.md 5 and
// docs/spec/flops_bytes.md 1.1.
#include "measure/slice/tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "measure/slice/shapes.h"
#include "model/draft/dspark.h"
#include "model/draft/mtp.h"
#include "tests/testing/checkpoint_files.h"

namespace fathom::measure {
namespace {

constexpr std::int64_t kVocabulary = 129'280;

// All layers of a published model; here all choose their experts by the learned gate.
ModelConfig Whole(const ModelConfig& published, const DrafterKind* draft = &kMtpDrafter) {
  std::vector<int> ratios = published.compress_ratios;
  ratios.pop_back();  // of the MTP head
  return SliceConfig(published,
                     {.ratios = std::move(ratios), .vocab_size = kVocabulary, .draft = draft});
}

std::int64_t Bytes(const std::vector<SliceTensor>& part) {
  std::int64_t bytes = 0;
  for (const SliceTensor& tensor : part) {
    bytes += ByteCount(tensor);
  }
  return bytes;
}

struct Totals {
  std::int64_t n_tensors = 0;
  std::int64_t bytes = 0;
};

Totals Count(const ModelConfig& config) {
  Totals totals;
  for (const std::vector<SliceTensor>& part : SliceParts(config)) {
    totals.n_tensors += static_cast<std::int64_t>(part.size());
    totals.bytes += Bytes(part);
  }
  return totals;
}

// A hash layer has a table in place of the bias.
std::int64_t HashLayersMore(const ModelConfig& published) {
  constexpr std::int64_t kLayers = 3;
  return kLayers * (kVocabulary * 6 * 8 - published.n_routed_experts * 4);
}

TEST(TensorsTest, AllLayersTogetherHaveThePublishedSize) {
  const Totals flash = Count(Whole(FlashConfig()));
  EXPECT_EQ(flash.n_tensors, 69'187);
  EXPECT_EQ(flash.bytes, 159'609'485'896 - HashLayersMore(FlashConfig()));
  const Totals pro = Count(Whole(ProConfig()));
  EXPECT_EQ(pro.n_tensors, 145'116);
  EXPECT_EQ(pro.bytes, 864'704'792'696 - HashLayersMore(ProConfig()));
}

// The last parts are the stages of the drafter; docs/spec/mtp.md 2.2, and for the bytes of Flash
// the difference of the published totals (docs/spec/checkpoint.md 5).
TEST(TensorsTest, TheDSparkDrafterHasThePublishedSize) {
  constexpr std::int64_t kFlashBytes = 10'862'838'300;
  for (const auto& [published, n_tensors, n_bytes] :
       {std::tuple(FlashConfig(), 4'705, kFlashBytes),
        std::tuple(ProConfig(), 7'009, std::int64_t{0})}) {
    const auto parts = SliceParts(Whole(published, &kDSparkDrafter));
    std::int64_t found = 0;
    std::int64_t bytes = 0;
    for (auto part = parts.end() - 3; part != parts.end(); ++part) {
      EXPECT_TRUE(part->front().name.starts_with("mtp."));
      found += std::ssize(*part);
      bytes += Bytes(*part);
    }
    EXPECT_EQ(found, n_tensors);
    if (n_bytes > 0) {
      EXPECT_EQ(bytes, n_bytes);
    }
  }
}

// Bytes of a layer of this ratio: routed experts, and the rest.
std::pair<std::int64_t, std::int64_t> BytesOfLayer(const ModelConfig& published, int ratio) {
  const auto parts = SliceParts(SliceConfig(published, {.ratios = {ratio}, .vocab_size = 512}));
  std::pair<std::int64_t, std::int64_t> bytes;
  for (const SliceTensor& tensor : parts.at(1)) {
    const bool routed = tensor.name.find(".experts.") != std::string::npos;
    (routed ? bytes.first : bytes.second) += ByteCount(tensor);
  }
  return bytes;
}

TEST(TensorsTest, LayersHaveThePublishedSizes) {
  constexpr double kMega = 1e6;
  constexpr double kRounded = 0.05;  // the figures have one decimal
  for (const int ratio : {0, 4, 128}) {
    EXPECT_EQ(BytesOfLayer(FlashConfig(), ratio).first, 3'422'552'064);
    EXPECT_EQ(BytesOfLayer(ProConfig(), ratio).first, 13'476'298'752);
  }
  const auto rest = [&](const ModelConfig& published, int ratio) {
    return static_cast<double>(BytesOfLayer(published, ratio).second) / kMega;
  };
  EXPECT_NEAR(rest(FlashConfig(), 0), 143.6 - 6.2, 2 * kRounded);
  EXPECT_NEAR(rest(FlashConfig(), 4), 167.3, kRounded);
  EXPECT_NEAR(rest(FlashConfig(), 128), 146.0, kRounded);
  EXPECT_NEAR(rest(ProConfig(), 4), 427.2, kRounded);
  EXPECT_NEAR(rest(ProConfig(), 128), 392.0, kRounded);
}

using Inventory = std::map<std::string, std::pair<DType, std::vector<std::int64_t>>>;

TEST(TensorsTest, NamesTypesAndShapesAreThoseOfTheFormat) {
  using testing::NativeHead;
  for (const auto& [published, drafter, head, n_stages] :
       {std::tuple(FlashConfig(), &kMtpDrafter, NativeHead::kMtp, 1),
        std::tuple(ProConfig(), &kMtpDrafter, NativeHead::kMtp, 1),
        std::tuple(FlashConfig(), &kDSparkDrafter, NativeHead::kDSpark, 3)}) {
    const ModelConfig config = SliceConfig(
        published, {.ratios = {0, 4, 128}, .n_experts = 7, .vocab_size = 999, .draft = drafter});
    Inventory expected;
    for (const auto& shard :
         testing::NativeShards(config, {.head = head, .n_draft_stages = n_stages})) {
      for (const testing::TensorSpec& tensor : shard) {
        expected[tensor.name] = {tensor.dtype, tensor.shape};
      }
    }
    Inventory actual;
    for (const std::vector<SliceTensor>& part : SliceParts(config)) {
      for (const SliceTensor& tensor : part) {
        actual[tensor.name] = {tensor.dtype, tensor.shape};
      }
    }
    EXPECT_EQ(actual, expected);
  }
}

TEST(TensorsTest, PartsBeginWithTheWidestTypes) {
  const ModelConfig config =
      SliceConfig(FlashConfig(), {.ratios = {4, 0}, .vocab_size = 512, .draft = &kMtpDrafter});
  const auto parts = SliceParts(config);
  EXPECT_EQ(parts.size(), 5u);  // embedding, two layers, head, MTP
  for (const std::vector<SliceTensor>& part : parts) {
    EXPECT_TRUE(
        std::is_sorted(part.begin(), part.end(), [](const SliceTensor& a, const SliceTensor& b) {
          return ElementBytes(a.dtype) > ElementBytes(b.dtype);
        }));
  }
}

}  // namespace
}  // namespace fathom::measure
