// The inputs that Model::Load and Forward refuse, with their messages; and formats that they must
// accept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/registry.h"
#include "model/weight_values.h"
#include "tests/model/edited_checkpoint.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

using ::testing::AllOf;
using testing::EditedCheckpoint;
using ::testing::HasSubstr;

const ModelOptions kSmall{.max_sequences = 2, .max_context = 64, .max_batch_tokens = 16};

std::filesystem::path FairyDirectory() { return testing::ProjectPath("models/fairy"); }

// The error of loading; code kIo and "" if there is none, which no test expects.
Error LoadError(const std::filesystem::path& directory, const ModelOptions& options = kSmall) {
  const auto backend = MakeCpuBackend(std::nullopt, 1);
  EXPECT_TRUE(backend);
  const auto model = Model::Load(directory, **backend, options);
  EXPECT_FALSE(model);
  return model ? Error{ErrorCode::kIo, ""} : model.error();
}

void ExpectError(const Error& error, ErrorCode code, const std::string& part) {
  EXPECT_EQ(error.code, code) << error.message;
  EXPECT_THAT(error.message, HasSubstr(part));
}

TEST(ModelLoad, ContextMustFitTheModel) {
  for (const std::int64_t context : {-1, 0, 65537}) {
    ExpectError(LoadError(FairyDirectory(), {.max_context = context}), ErrorCode::kInvalidArgument,
                "context length: expected 1 to 65536 (max_position_embeddings), found " +
                    std::to_string(context));
  }
}

TEST(ModelLoad, SizesMustBePositive) {
  for (const ModelOptions& options :
       {ModelOptions{.max_sequences = 0}, ModelOptions{.max_batch_tokens = 0},
        ModelOptions{.max_logit_rows = 0}}) {
    ExpectError(LoadError(FairyDirectory(), options), ErrorCode::kInvalidArgument,
                "expected at least 1");
  }
}

TEST(ModelLoad, MissingDirectory) {
  ExpectError(LoadError("/nonexistent/model"), ErrorCode::kNotFound, "/nonexistent/model");
}

TEST(ModelLoad, WithMtpNeedsTheHead) {
  EditedCheckpoint copy(FairyDirectory());
  copy.Remove("mtp.");
  ModelOptions options = kSmall;
  options.with_draft = true;
  ExpectError(LoadError(copy.Write(), options), ErrorCode::kUnsupported,
              "expected an MTP head (mtp.0.e_proj.weight and others) or a DSpark head "
              "(mtp.0.main_proj.weight and others), found no draft head");
  testing::TestModel without(copy.Write(), kSmall);
  EXPECT_EQ(without.model().drafter(), nullptr);
}

TEST(ModelLoad, ListsMissingAndMisshapenTensors) {
  EditedCheckpoint copy(FairyDirectory());
  copy.Remove("norm.weight");
  copy.Remove("layers.3.attn.compressor.ape");
  EditedCheckpoint::Tensor& tensor = copy.Find("layers.1.attn_norm.weight");
  tensor.spec.shape = {128};
  tensor.bytes.resize(256);
  EditedCheckpoint::Tensor& sink = copy.Find("layers.2.attn.attn_sink");
  sink.spec.dtype = DType::kI32;
  const Error error = LoadError(copy.Write());
  EXPECT_EQ(error.code, ErrorCode::kInvalidData);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("4 problems with the tensors of "),
                    HasSubstr("\n  norm.weight: missing, expected BF16 [256]"),
                    HasSubstr("\n  layers.3.attn.compressor.ape: missing, expected F32 [4, 256]"),
                    HasSubstr("\n  layers.1.attn_norm.weight: expected BF16 [256], found BF16 "
                              "[128]"),
                    HasSubstr("\n  layers.2.attn.attn_sink: expected F32 [4], found I32 [4]")));
}

TEST(ModelLoad, ScaleBytesMustBeNumbers) {
  EditedCheckpoint copy(FairyDirectory());
  copy.Find("layers.1.attn.wq_b.scale").bytes[3] = '\xFF';
  copy.Find("layers.2.ffn.shared_experts.w1.scale").bytes[2] = '\xFF';
  const Error error = LoadError(copy.Write());
  EXPECT_EQ(error.code, ErrorCode::kInvalidData);
  EXPECT_THAT(
      error.message,
      AllOf(HasSubstr("layers.1.attn.wq_b.scale: expected finite scales, found NaN (byte 255) at "
                      "element 3"),
            HasSubstr("layers.2.ffn.shared_experts.w1.scale: expected finite scales, found NaN "
                      "(byte 255) at element 2")));
}

// With several ranks, each reads the scales of its own share, and all together read everything.
TEST(ModelLoad, ARankReadsItsOwnScales) {
  EditedCheckpoint copy(FairyDirectory());
  copy.Find("layers.1.attn.wq_b.scale").bytes[3] = '\xFF';
  const std::filesystem::path& directory = copy.Write();
  const auto checkpoint = Checkpoint::Open(directory);
  const auto config = ReadModelConfig(directory / "config.json");
  ASSERT_TRUE(checkpoint && config);
  ThreadTeam team(2);
  const auto check = [&](const char* name) {
    const std::span<const std::byte> bytes = checkpoint->Find(name)->bytes;
    const MemoryPieces share = {bytes.subspan(bytes.size() / 2)};  // rows of the second rank
    return CheckWeightValues(*checkpoint, *config, WeightValues::kOutsideExperts, team, &share);
  };
  EXPECT_TRUE(check("layers.1.attn.wq_b.weight"));
  const Status found = check("layers.1.attn.wq_b.scale");
  ASSERT_FALSE(found);
  ExpectError(found.error(), ErrorCode::kInvalidData, "layers.1.attn.wq_b.scale: expected finite");
}

Batch RandomBatch(const ModelConfig& config, std::int64_t n_tokens, unsigned seed) {
  Batch batch;
  batch.Add(0, 0, testing::RandomTokens(config, n_tokens, seed));
  return batch;
}

// Scales of routed experts are read when the expert is first chosen (ExpertStore::Acquire).
class ExpertScales : public ::testing::TestWithParam<const char*> {};

TEST_P(ExpertScales, MustBeNumbersWhenTheExpertIsUsed) {
  const std::string name = std::string("layers.2.ffn.experts.5.") + GetParam() + ".scale";
  EditedCheckpoint copy(FairyDirectory());
  copy.Find(name).bytes[70] = '\xFF';
  testing::TestModel broken(copy.Write(), kSmall);
  testing::TestModel whole(FairyDirectory(), kSmall);
  const std::int64_t vocab = whole.model().config().vocab_size;
  const std::vector<std::int32_t> first = {0};
  int n_refused = 0;
  for (Token token = 0; token < 40; ++token) {
    Batch batch;
    batch.Add(0, 0, std::vector<Token>{token});
    ASSERT_TRUE(whole.model().Forward(batch));
    if (const Status ran = broken.model().Forward(batch); !ran) {
      EXPECT_EQ(ran.error().code, ErrorCode::kInvalidData);
      EXPECT_EQ(ran.error().message,
                name + ": expected finite scales, found NaN (byte 255) at element 70");
      ++n_refused;
    } else {
      EXPECT_EQ(std::memcmp(broken.model().Logits(first)->data, whole.model().Logits(first)->data,
                            static_cast<std::size_t>(vocab) * sizeof(float)),
                0);
    }
  }
  EXPECT_GT(n_refused, 1) << "refused every time";
  EXPECT_LT(n_refused, 40) << "tokens that do not need the expert run";
}

INSTANTIATE_TEST_SUITE_P(Matrices, ExpertScales, ::testing::Values("w1", "w2", "w3"),
                         [](const auto& matrix) { return std::string(matrix.param); });

TEST(ModelForwardErrors, ASequenceBeginsAnewAfterABrokenExpert) {
  EditedCheckpoint copy(FairyDirectory());
  copy.Find("layers.3.ffn.experts.1.w2.scale").bytes[0] = '\xFF';
  testing::TestModel broken(copy.Write(), kSmall);
  testing::TestModel whole(FairyDirectory(), kSmall);
  Model& model = broken.model();
  // A token that runs alone, then some that need the expert.
  Token harmless = 0;
  const auto one = [](Token token) {
    Batch batch;
    batch.Add(0, 0, std::vector<Token>{token});
    return batch;
  };
  while (!model.Forward(one(harmless))) {
    ++harmless;
  }
  Batch batch;
  batch.Add(0, 1, testing::RandomTokens(model.config(), 15, 3));
  batch.Add(1, 0, std::vector<Token>{harmless});
  const Status ran = model.Forward(batch);
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message, HasSubstr("layers.3.ffn.experts.1.w2.scale: expected finite"));
  Batch next;
  next.Add(0, 1, std::vector<Token>{harmless});
  const Status refused = model.Forward(next);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "sequence 0: expected position 0 or 0 to 0, found 1");
  ASSERT_TRUE(model.Forward(one(harmless)));
  ASSERT_TRUE(whole.model().Forward(one(harmless)));
  const std::vector<std::int32_t> first = {0};
  EXPECT_EQ(std::memcmp(model.Logits(first)->data, whole.model().Logits(first)->data,
                        static_cast<std::size_t>(model.config().vocab_size) * sizeof(float)),
            0);
}

TEST(ModelForwardErrors, MtpExpertsAreCheckedToo) {
  EditedCheckpoint copy(FairyDirectory());
  for (EditedCheckpoint::Tensor& tensor : copy.tensors()) {
    if (tensor.spec.name.starts_with("mtp.0.ffn.experts.") &&
        tensor.spec.name.ends_with(".w3.scale")) {
      tensor.bytes[1] = '\xFF';
    }
  }
  ModelOptions options = kSmall;
  options.with_draft = true;
  testing::TestModel broken(copy.Write(), options);
  ASSERT_TRUE(broken.model().Forward(RandomBatch(broken.model().config(), 2, 1)));
  Batch next;
  next.Add(0, 0, std::vector<Token>{7});
  const std::vector<std::int32_t> rows = {0};
  // Keys need no experts; drafts do.
  Drafter& drafter = *broken.model().drafter();
  ASSERT_TRUE(drafter.Commit(next, rows, StreamSource::kForward));
  const Status ran = drafter.Propose(
      std::vector<DraftRequest>{{.row = 0, .n_drafts = 1}}, {},
      [](const DraftLogits& /*found*/, std::span<Token> /*tokens*/) { return Status(); });
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message,
              AllOf(HasSubstr("mtp.0.ffn.experts."), HasSubstr(".w3.scale: expected finite")));
}

TEST(ModelLoad, WeightsGiveTheSameBitsWhereverTheyLie) {
  const auto mini = testing::SharedData("oracle/flash-mini");
  const std::filesystem::path directory = mini ? *mini : FairyDirectory();
  ModelOptions options{.max_context = 60, .max_batch_tokens = 60, .with_draft = true};
  testing::TestModel plain(directory, options);
  const auto tokens = testing::RandomTokens(plain.model().config(), 60, 1);
  const testing::Sequence expected = testing::RunAlone(plain.model(), tokens, {60});
  options.n_load_threads = 2;
  for (const WeightMemory& memory :
       {WeightMemory{.huge_pages = true}, WeightMemory{.preload = true}}) {
    options.weights = memory;
    testing::TestModel other(directory, options);
    EXPECT_EQ(other.model().weight_bytes(), plain.model().weight_bytes());
    testing::ExpectSameBits(expected, testing::RunAlone(other.model(), tokens, {60}), 60,
                            memory.huge_pages ? "huge pages" : "preloaded");
  }
}

TEST(ModelLoad, FloatScalesMustBeFinite) {
  const auto base = testing::SharedData("oracle/base-mini");
  if (!base) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EditedCheckpoint copy(*base);
    std::memcpy(copy.Find("layers.0.attn.wq_b.scale").bytes.data() + 4, &bad, sizeof(bad));
    ExpectError(LoadError(copy.Write()), ErrorCode::kInvalidData,
                "layers.0.attn.wq_b.scale: expected finite scales, found NaN or infinity at "
                "element 1");
  }
}

TEST(ModelLoad, HashRoutesMustNameExperts) {
  for (const std::int64_t bad : {-1, 8}) {
    EditedCheckpoint copy(FairyDirectory());
    std::memcpy(copy.Find("layers.1.ffn.gate.tid2eid").bytes.data() + 8 * 7, &bad, sizeof(bad));
    ExpectError(LoadError(copy.Write()), ErrorCode::kInvalidData,
                "layers.1.ffn.gate.tid2eid: expected expert ids 0 to 7, found " +
                    std::to_string(bad) + " at element 7");
  }
}

class ModelForward : public ::testing::Test {
 protected:
  // Runs n tokens of `sequence` from `position`; the error's message, or "".
  std::string Run(std::int32_t sequence, std::int32_t position, std::int64_t n, Token token = 5) {
    Batch batch;
    batch.Add(sequence, position, std::vector<Token>(static_cast<std::size_t>(n), token));
    const Status ran = loaded_.model().Forward(batch);
    if (!ran) {
      EXPECT_EQ(ran.error().code, ErrorCode::kInvalidArgument);
    }
    return ran ? "" : ran.error().message;
  }
  testing::TestModel loaded_{FairyDirectory(), kSmall};
};

TEST_F(ModelForward, RefusesTokensThatDoNotExist) {
  EXPECT_EQ(Run(0, 0, 1, -1), "token id: expected 0 to 4095, found -1");
  EXPECT_EQ(Run(0, 0, 1, 4096), "token id: expected 0 to 4095, found 4096");
  EXPECT_EQ(Run(0, 0, 1, 4095), "");
}

TEST_F(ModelForward, RefusesWhatDoesNotFit) {
  EXPECT_EQ(Run(0, 0, 17), "batch: expected at most 16 tokens, found 17");
  EXPECT_EQ(Run(2, 0, 1), "sequence: expected 0 to 1, found 2");
  EXPECT_EQ(Run(-1, 0, 1), "sequence: expected 0 to 1, found -1");
  for (std::int32_t position = 0; position < 64; position += 16) {
    EXPECT_EQ(Run(1, position, 16), "");
  }
  EXPECT_EQ(Run(1, 64, 1), "sequence 1: expected positions 0 to 63 (the context), found 64 to 64");
  EXPECT_EQ(Run(1, 60, 5), "sequence 1: expected positions 0 to 63 (the context), found 60 to 64");
}

TEST_F(ModelForward, RefusesGapsAndRollingBackTooFar) {
  EXPECT_EQ(Run(0, 1, 1), "sequence 0: expected position 0 or 0 to 0, found 1");
  EXPECT_EQ(Run(0, 0, 16), "");
  EXPECT_EQ(Run(0, 17, 1), "sequence 0: expected position 0 or 8 to 16, found 17");
  EXPECT_EQ(Run(0, 7, 1), "sequence 0: expected position 0 or 8 to 16, found 7");
  EXPECT_EQ(Run(1, 16, 1), "sequence 1: expected position 0 or 0 to 0, found 16");
  EXPECT_EQ(Run(0, 8, 1), "");
  EXPECT_EQ(Run(0, 7, 1), "sequence 0: expected position 0 or 8 to 9, found 7")
      << "taking back in small steps does not reach further";
  EXPECT_EQ(Run(0, 10, 1), "sequence 0: expected position 0 or 8 to 9, found 10");
  EXPECT_EQ(Run(0, 9, 1), "");
  EXPECT_EQ(Run(0, 0, 2), "");
  EXPECT_EQ(Run(0, 1, 1), "");
}

TEST_F(ModelForward, AnErrorChangesNothing) {
  Model& model = loaded_.model();
  const std::vector<Token> tokens = testing::RandomTokens(model.config(), 20, 1);
  const testing::Sequence expected = testing::RunAlone(model, tokens, {5});
  testing::Sequence actual(model.config(), 0, tokens);
  while (actual.left() > 0) {
    testing::Step(model, {{&actual, 5}});
    EXPECT_NE(Run(0, static_cast<std::int32_t>(actual.done), 1, -1), "");
    EXPECT_NE(Run(0, static_cast<std::int32_t>(actual.done) + 1, 1), "");
    EXPECT_NE(Run(0, static_cast<std::int32_t>(actual.done), 17), "");
    const std::vector<std::int32_t> last = {4};
    const float* row = expected.logits.data() + (actual.done - 1) * model.config().vocab_size;
    EXPECT_EQ(std::memcmp(model.Logits(last)->data, row,
                          static_cast<std::size_t>(model.config().vocab_size) * sizeof(float)),
              0);
  }
  testing::ExpectSameBits(expected, actual, 20, "with errors in between");
}

TEST_F(ModelForward, WithoutDraftsThereIsNoDrafter) {
  EXPECT_EQ(Run(0, 0, 1), "");
  EXPECT_EQ(loaded_.model().drafter(), nullptr);
}

// Every FP8 tensor called wo_a becomes BF16, exactly: an E4M3 number times a power of two.
void ExpandWoA(EditedCheckpoint& copy) {
  int n_expanded = 0;
  for (EditedCheckpoint::Tensor& tensor : copy.tensors()) {
    if (!tensor.spec.name.ends_with("attn.wo_a.weight")) {
      continue;
    }
    const std::string prefix = tensor.spec.name.substr(0, tensor.spec.name.size() - 6);
    const EditedCheckpoint::Tensor& scales = copy.Find(prefix + "scale");
    ASSERT_EQ(scales.spec.dtype, DType::kF8E8M0);
    const auto cols = static_cast<std::size_t>(tensor.spec.shape[1]);
    const auto scale_cols = static_cast<std::size_t>(scales.spec.shape[1]);
    std::vector<Bf16> values(tensor.bytes.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t block = i / cols / 128 * scale_cols + i % cols / 128;
      const float value = E4m3ToFloat(static_cast<std::uint8_t>(tensor.bytes[i])) *
                          E8m0ToFloat(static_cast<std::uint8_t>(scales.bytes[block]));
      values[i] = ToBf16(value);
      ASSERT_EQ(ToFloat(values[i]), value);
    }
    tensor.spec.dtype = DType::kBF16;
    tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Bf16));
    ++n_expanded;
  }
  std::erase_if(copy.tensors(), [](const EditedCheckpoint::Tensor& tensor) {
    return tensor.spec.name.ends_with("attn.wo_a.scale");
  });
  EXPECT_EQ(n_expanded, 6);  // five layers and the MTP block
}

TEST(ModelFormats, WoAInBf16GivesTheSameBits) {
  const auto mini = testing::SharedData("oracle/flash-mini");
  if (!mini) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  EditedCheckpoint copy(*mini);
  ExpandWoA(copy);
  const ModelOptions options{.max_context = 150, .max_batch_tokens = 150, .with_draft = true};
  testing::TestModel fp8(*mini, options);
  testing::TestModel bf16(copy.Write(), options);
  const auto tokens = testing::RandomTokens(fp8.model().config(), 150, 1);
  testing::ExpectSameBits(testing::RunAlone(fp8.model(), tokens, {150}),
                          testing::RunAlone(bf16.model(), tokens, {150}), 150, "wo_a in BF16");
}

// The scales of the routed experts rounded to powers of two, as E8M0 or still as F32.
void RoundExpertScales(EditedCheckpoint& copy, bool as_e8m0) {
  for (EditedCheckpoint::Tensor& tensor : copy.tensors()) {
    if (tensor.spec.name.find(".experts.") == std::string::npos ||
        !tensor.spec.name.ends_with(".scale")) {
      continue;
    }
    ASSERT_EQ(tensor.spec.dtype, DType::kF32);
    std::string exponents;
    for (std::size_t i = 0; i < tensor.bytes.size(); i += sizeof(float)) {
      float scale = 0.0f;
      std::memcpy(&scale, tensor.bytes.data() + i, sizeof(scale));
      const int exponent = static_cast<int>(std::lround(std::log2(scale)));
      exponents.push_back(static_cast<char>(exponent + 127));
      scale = std::ldexp(1.0f, exponent);
      std::memcpy(tensor.bytes.data() + i, &scale, sizeof(scale));
    }
    if (as_e8m0) {
      tensor.spec.dtype = DType::kF8E8M0;
      tensor.bytes = exponents;
    }
  }
}

std::vector<Bf16> FirstLayer(const std::filesystem::path& directory) {
  testing::TestModel loaded(directory, {.max_context = 32, .max_batch_tokens = 32});
  Model& model = loaded.model();
  Batch batch;
  batch.Add(0, 0, testing::RandomTokens(model.config(), 32, 1));
  const std::int64_t cols = 4 * model.config().hidden_size;
  std::vector<Bf16> streams(static_cast<std::size_t>(32 * cols));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    streams[i] = ToBf16(std::sin(static_cast<float>(i)));
  }
  const Status ran = model.RunLayer(0, batch, {streams.data(), 32, cols});
  EXPECT_TRUE(ran) << ran.error().message;
  return streams;
}

// Two orders of the same sum (docs/numerics.md 2), so close but not the same bits.
TEST(ModelFormats, Fp8ExpertsWithE8m0Scales) {
  const auto base = testing::SharedData("oracle/base-mini");
  if (!base) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  EditedCheckpoint as_e8m0(*base);
  RoundExpertScales(as_e8m0, true);
  EditedCheckpoint as_f32(*base);
  RoundExpertScales(as_f32, false);
  const std::vector<Bf16> original = FirstLayer(*base);
  const std::vector<Bf16> expected = FirstLayer(as_f32.Write());
  const std::vector<Bf16> actual = FirstLayer(as_e8m0.Write());
  const auto error_of = [&](const std::vector<Bf16>& streams) {
    double error = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double value = ToFloat(expected[i]);
      error += std::pow(ToFloat(streams[i]) - value, 2);
      norm += value * value;
    }
    return std::sqrt(error / norm);
  };
  EXPECT_LE(error_of(actual), 1e-3);
  EXPECT_GE(error_of(original), 1e-2) << "the experts do not show in this layer";
}

}  // namespace
}  // namespace fathom::model
