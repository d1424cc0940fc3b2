// Checkpoints of other programs: one sentence names the cause.
#include "checkpoint/foreign_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/weight_binder.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ForeignLayoutTest : public ::testing::Test {
 protected:
  // Returns the error of binding three experts of the published layout.
  std::string BindExperts(const std::vector<testing::TensorSpec>& tensors) {
    const testing::TemporaryDirectory directory;
    const Checkpoint checkpoint = testing::OpenZeros(directory.path(), tensors);
    WeightBinder binder(checkpoint);
    for (const char* name : {"w1", "w2", "w3"}) {
      binder.Bind(fmt::format("layers.0.ffn.experts.0.{}.weight", name), {DType::kI8}, {4, 4});
      binder.Bind(fmt::format("layers.0.ffn.experts.0.{}.scale", name), {DType::kF8E8M0}, {4, 1});
    }
    const Status status = binder.Finish();
    EXPECT_EQ(status ? 0u : binder.Problems().size(), status ? 0u : n_problems_);
    return status ? "no error" : status.error().message;
  }

  std::size_t n_problems_ = 1;
};

TEST_F(ForeignLayoutTest, TransformersNames) {
  const std::string error =
      BindExperts({{"model.layers.0.self_attn.q_a_proj.weight", DType::kBF16, {4, 4}},
                   {"model.layers.0.mlp.experts.0.gate_proj.weight", DType::kBF16, {4, 4}}});
  EXPECT_THAT(error,
              HasSubstr("are named as by transformers (self_attn, mlp): take the published"));
  EXPECT_THAT(error, Not(HasSubstr("missing")));
}

TEST_F(ForeignLayoutTest, CompressedTensors) {
  EXPECT_THAT(BindExperts({{"layers.0.ffn.experts.0.w1.weight_packed", DType::kU8, {4, 2}},
                           {"layers.0.ffn.experts.0.w1.weight_scale", DType::kF8E4M3, {4, 1}},
                           {"layers.0.ffn.experts.0.w1.weight_global_scale", DType::kF32, {1}}}),
              HasSubstr("are quantized by compressed-tensors (weight_packed)"));
}

TEST_F(ForeignLayoutTest, Nvfp4) {
  EXPECT_THAT(BindExperts({{"layers.0.ffn.experts.0.w1.weight", DType::kU8, {4, 2}},
                           {"layers.0.ffn.experts.0.w1.weight_scale", DType::kF8E4M3, {4, 1}},
                           {"layers.0.ffn.experts.0.w1.weight_scale_2", DType::kF32, {1}}}),
              HasSubstr("are quantized by ModelOpt to NVFP4 (weight_scale_2)"));
}

TEST_F(ForeignLayoutTest, WideWeights) {
  EXPECT_THAT(BindExperts({{"layers.0.ffn.experts.0.w1.weight", DType::kBF16, {4, 8}},
                           {"layers.0.ffn.experts.0.w2.weight", DType::kBF16, {4, 8}},
                           {"layers.0.ffn.experts.0.w3.weight", DType::kBF16, {4, 8}}}),
              HasSubstr("are in BF16, without scales"));
}

// Half a download has the published layout: its tensors are named one by one.
TEST_F(ForeignLayoutTest, MissingTensorsAreNamed) {
  n_problems_ = 2;
  const std::string error =
      BindExperts({{"layers.0.ffn.experts.0.w1.weight", DType::kI8, {4, 4}},
                   {"layers.0.ffn.experts.0.w1.scale", DType::kF8E8M0, {4, 1}},
                   {"layers.0.ffn.experts.0.w2.weight", DType::kI8, {4, 4}},
                   {"layers.0.ffn.experts.0.w2.scale", DType::kF8E8M0, {4, 1}}});
  EXPECT_THAT(error, HasSubstr("2 problems with the tensors of "));
  EXPECT_THAT(error, HasSubstr("layers.0.ffn.experts.0.w3.scale: missing"));
}

}  // namespace
}  // namespace fathom::checkpoint
