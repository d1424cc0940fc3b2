// The names that other writers of safetensors give to the types of a checkpoint's tensors: the same
// bytes are the same model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "kernels/registry.h"
#include "model/weight_values.h"
#include "tests/model/edited_checkpoint.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

using testing::EditedCheckpoint;
using ::testing::HasSubstr;
using Tensor = EditedCheckpoint::Tensor;

constexpr const char* kExpert = "layers.1.ffn.experts.0.w1.weight";
constexpr const char* kRoutes = "layers.1.ffn.gate.tid2eid";

std::filesystem::path EmbeddedModel() { return testing::ProjectPath("models/fairy"); }

void NamePackedValues(Tensor& tensor, DType dtype) {
  if (tensor.spec.dtype != DType::kI8) return;
  tensor.spec.dtype = dtype;
  if (dtype == DType::kF4) tensor.spec.shape[1] *= 2;
}

void NameScales(Tensor& tensor) {
  if (tensor.spec.dtype == DType::kF8E8M0) tensor.spec.dtype = DType::kU8;
}

void NarrowIds(Tensor& tensor, DType dtype) {
  if (tensor.spec.dtype != DType::kI64) return;
  std::string narrow;
  for (std::size_t i = 0; i < tensor.bytes.size(); i += sizeof(std::int64_t)) {
    narrow += tensor.bytes.substr(i, sizeof(std::int32_t));
  }
  tensor.spec.dtype = dtype;
  tensor.bytes = narrow;
}

class TensorTypes : public ::testing::Test {
 protected:
  void ExpectSameModel(EditedCheckpoint& copy, const std::string& what) {
    const ModelOptions options{.max_context = 40, .max_batch_tokens = 40, .with_draft = true};
    testing::TestModel plain(EmbeddedModel(), options);
    testing::TestModel other(copy.Write(), options);
    const auto tokens = testing::RandomTokens(plain.model().config(), 40, 1);
    testing::ExpectSameBits(testing::RunAlone(plain.model(), tokens, {40}),
                            testing::RunAlone(other.model(), tokens, {40}), 40, what);
  }
  static std::string LoadError(EditedCheckpoint& copy) {
    const auto backend = MakeCpuBackend(std::nullopt, 1);
    const auto model = Model::Load(copy.Write(), **backend, {.max_context = 40});
    return model ? "" : model.error().message;
  }
  // Returns the error of the values alone, as `fathom inspect` asks for it.
  static std::string ValueError(EditedCheckpoint& copy) {
    const std::filesystem::path& directory = copy.Write();
    const auto checkpoint = Checkpoint::Open(directory);
    const auto config = ReadModelConfig(directory / "config.json");
    EXPECT_TRUE(checkpoint && config);
    ThreadTeam team(1);
    const Status checked =
        CheckWeightValues(*checkpoint, *config, WeightValues::kAll, team, nullptr);
    return checked ? "" : checked.error().message;
  }
};

TEST_F(TensorTypes, PackedValuesMayBeU8OrF4) {
  for (const DType dtype : {DType::kU8, DType::kF4}) {
    EditedCheckpoint copy(EmbeddedModel());
    for (Tensor& tensor : copy.tensors()) NamePackedValues(tensor, dtype);
    ASSERT_EQ(copy.Find(kExpert).spec.dtype, dtype);
    ExpectSameModel(copy, std::string(Name(dtype)));
  }
}

TEST_F(TensorTypes, ScalesMayBeU8) {
  EditedCheckpoint copy(EmbeddedModel());
  for (Tensor& tensor : copy.tensors()) NameScales(tensor);
  ExpectSameModel(copy, "scales");
  copy.Find("layers.1.attn.wq_b.scale").bytes[3] = '\xFF';
  EXPECT_THAT(ValueError(copy), HasSubstr("layers.1.attn.wq_b.scale: expected finite scales"));
}

TEST_F(TensorTypes, ExpertIdsMayHave32Bits) {
  for (const DType dtype : {DType::kI32, DType::kU32}) {
    EditedCheckpoint copy(EmbeddedModel());
    for (Tensor& tensor : copy.tensors()) NarrowIds(tensor, dtype);
    ExpectSameModel(copy, std::string(Name(dtype)));
    EXPECT_EQ(ValueError(copy), "");
    const std::int32_t bad = 8;
    std::memcpy(copy.Find(kRoutes).bytes.data() + 4 * 7, &bad, sizeof(bad));
    EXPECT_THAT(ValueError(copy), HasSubstr("expected expert ids 0 to 7, found 8 at element 7"));
  }
}

TEST_F(TensorTypes, OtherTensorsMayHaveAnyType) {
  EditedCheckpoint copy(EmbeddedModel());
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::vector<std::int64_t> shape = {2, 4};
    const auto bytes = static_cast<std::size_t>(*TensorBytes(dtype, shape));
    copy.tensors().push_back(
        {{"other." + std::string(Name(dtype)), dtype, shape}, std::string(bytes, '\x7f')});
  }
  ExpectSameModel(copy, "other tensors");
}

TEST_F(TensorTypes, WrongOnesNameAllForms) {
  EditedCheckpoint copy(EmbeddedModel());
  Tensor& expert = copy.Find(kExpert);
  expert.spec.dtype = DType::kF4;
  expert.bytes.resize(expert.bytes.size() / 2);
  Tensor& routes = copy.Find(kRoutes);
  routes.spec.dtype = DType::kF64;
  const std::string error = LoadError(copy);
  EXPECT_THAT(error, HasSubstr(std::string(kExpert) + ": expected I8 or U8 [256, 128] or F4 [256, "
                                                      "256], found F4 [256, 128]"));
  EXPECT_THAT(error, HasSubstr(std::string(kRoutes) +
                               ": expected I64 or I32 or U32 [4096, 2], found F64 [4096, 2]"));
  EXPECT_EQ(ValueError(copy), "") << "nothing is read as values of another type";
}

}  // namespace
}  // namespace fathom::model
