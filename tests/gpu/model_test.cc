// The backend of GPUs, on an emulated one, gives the bits of the CPU: every layer, and a text.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/gpu/emulated_gpu.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/golden.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using emulator::Visiting;

using testing::TestGpu;

// Waves of 32 in order at once, and of 64 in any order when they are awaited.
TestGpu InOrder() { return testing::EmulatedGpu({.wave_size = 32}); }
TestGpu InAnyOrder() {
  return testing::EmulatedGpu(
      {.wave_size = 64, .visiting = Visiting::kRandom, .runs_when_awaited = true});
}

struct LayersCase {
  testing::CheckpointCase checkpoint;
  TestGpu gpu;
};

// The first tokens of the golden data, layer by layer.
class GpuLayers : public ::testing::TestWithParam<LayersCase> {};

TEST_P(GpuLayers, GiveTheBitsOfTheCpu) {
  constexpr std::int64_t kLayerTokens = 140;  // more than a window, a row of ratio 128
  const TestGpu& wanted = GetParam().gpu;
  if (const std::string reason = WhySkipped(wanted); !reason.empty()) GTEST_SKIP() << reason;
  const auto directory = GetParam().checkpoint.Directory();
  if (!directory) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  const testing::Golden golden = testing::ReadGolden(*directory, "golden");
  const auto n = std::min<std::int64_t>(std::ssize(golden.tokens), kLayerTokens);
  const ModelOptions options = {.max_context = n, .max_batch_tokens = n};
  testing::TestModel cpu(*directory, options);
  Batch batch;
  batch.Add(0, 0, std::span(golden.tokens).first(static_cast<std::size_t>(n)));
  testing::TestModel gpu(*directory, options, wanted.backend);
  for (std::int64_t layer = 0; layer < cpu.model().config().num_hidden_layers; ++layer) {
    const Matrix<const Bf16> input = golden.Streams(layer).Rows(0, n);
    std::vector<Bf16> expected(input.data, input.data + n * input.cols);
    std::vector<Bf16> found = expected;
    ASSERT_TRUE(cpu.model().RunLayer(layer, batch, {expected.data(), n, input.cols}));
    const Status ran = gpu.model().RunLayer(layer, batch, {found.data(), n, input.cols});
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_TRUE(found == expected) << "layer " << layer;
  }
}

std::string NameOfLayers(const ::testing::TestParamInfo<LayersCase>& test) {
  return test.param.checkpoint.name + test.param.gpu.name;
}
INSTANTIATE_TEST_SUITE_P(Oracle, GpuLayers,
                         ::testing::Values(LayersCase{testing::kFlashMini, InOrder()},
                                           LayersCase{testing::kFlashMini, InAnyOrder()},
                                           LayersCase{testing::kProMini, InAnyOrder()},
                                           LayersCase{testing::kBaseMini, InOrder()}),
                         NameOfLayers);

// Every checkpoint on the GPU of FATHOM_TEST_GPU.
std::vector<LayersCase> CasesOnDevice() {
  std::vector<LayersCase> cases;
  for (const TestGpu& gpu : testing::ChosenGpus()) {
    for (const auto& checkpoint : {testing::kFlashMini, testing::kProMini, testing::kBaseMini}) {
      cases.push_back({checkpoint, gpu});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(OnDevice, GpuLayers, ::testing::ValuesIn(CasesOnDevice()), NameOfLayers);

// The likeliest token after the first n.
Token Likeliest(const testing::Sequence& sequence, std::int64_t n, std::int64_t vocabulary) {
  const auto begin = sequence.logits.begin() + (n - 1) * vocabulary;
  return static_cast<Token>(std::max_element(begin, begin + vocabulary) - begin);
}

// A greedy text of the embedded model: a prompt of two chunks, then token by token.
class GpuText : public ::testing::TestWithParam<TestGpu> {};

TEST_P(GpuText, HasTheBitsOfTheCpu) {
  if (const std::string reason = WhySkipped(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  constexpr std::int64_t kPromptTokens = 40;
  constexpr std::int64_t kText = 16;
  const auto directory = testing::kFairy.Directory();
  ASSERT_TRUE(directory);
  const ModelOptions options = {.max_context = kPromptTokens + kText,
                                .max_batch_tokens = kPromptTokens,
                                .max_logit_rows = kPromptTokens,
                                .with_draft = true};
  testing::TestModel cpu(*directory, options);
  const ModelConfig& config = cpu.model().config();
  std::vector<Token> tokens = testing::RandomTokens(config, kPromptTokens, 1);
  tokens.resize(kPromptTokens + kText);
  testing::Sequence expected(config, 0, tokens);
  const auto write = [&](Model& model, testing::Sequence& sequence) {
    testing::Step(model, {{&sequence, 7}}, testing::NextToken::kKnown);
    testing::Step(model, {{&sequence, kPromptTokens - 7}}, testing::NextToken::kUnknown);
    while (sequence.left() > 0) {
      sequence.tokens[static_cast<std::size_t>(sequence.done)] =
          Likeliest(sequence, sequence.done, config.vocab_size);
      testing::Step(model, {{&sequence, 1}}, testing::NextToken::kUnknown);
    }
  };
  write(cpu.model(), expected);
  testing::TestModel gpu(*directory, options, GetParam().backend);
  testing::Sequence found(config, 0, tokens);
  write(gpu.model(), found);
  EXPECT_EQ(found.tokens, expected.tokens);
  testing::ExpectSameBits(expected, found, kPromptTokens + kText, GetParam().name);
}

std::string NameOfText(const ::testing::TestParamInfo<TestGpu>& gpu) { return gpu.param.name; }
INSTANTIATE_TEST_SUITE_P(Emulator, GpuText, ::testing::Values(InOrder(), InAnyOrder()), NameOfText);
INSTANTIATE_TEST_SUITE_P(OnDevice, GpuText, ::testing::ValuesIn(testing::ChosenGpus()), NameOfText);

}  // namespace
}  // namespace fathom::testing
