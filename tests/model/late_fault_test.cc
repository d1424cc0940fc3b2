// A fault of a step that is found only when the logits of the step are awaited.
#include <gtest/gtest.h>

#include <memory>
#include <variant>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

// Finds a fault in every head while `is_broken`.
class FaultyHead final : public ReferenceBackend {
 public:
  void Compute(const Operation& operation) override {
    ReferenceBackend::Compute(operation);
    if (is_broken && std::holds_alternative<HcHeadOp>(operation)) {
      fault_.Set(Fault::kKeyNotCached, 0);
    }
  }

  bool is_broken = false;
};

Status ForwardTwoTokens(Model& model, std::int32_t sequence, std::int32_t position) {
  const std::vector<Token> tokens = {5, 6};
  Batch batch;
  batch.Add(sequence, position, tokens);
  return model.Forward(batch);
}

TEST(LateFault, EmptiesTheSequencesOfTheStep) {
  FaultyHead backend;
  const std::unique_ptr<Model> model =
      Model::Load(testing::ProjectPath("models/fairy"), backend,
                  {.max_sequences = 2, .max_context = 64, .max_batch_tokens = 16})
          .value();
  const std::vector<std::int32_t> rows = {1};
  ASSERT_TRUE(ForwardTwoTokens(*model, 0, 0));
  ASSERT_TRUE(ForwardTwoTokens(*model, 1, 0));
  const Result<Matrix<const float>> whole = model->Logits(rows);
  ASSERT_TRUE(whole);
  const std::vector<float> expected(whole->Row(0), whole->Row(0) + whole->cols);

  ASSERT_TRUE(ForwardTwoTokens(*model, 1, 2));
  backend.is_broken = true;
  const Result<Matrix<const float>> broken = model->Logits(rows);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kInvalidData);
  backend.is_broken = false;

  // As after an error of Forward: the step's sequence begins again, the other one goes on.
  EXPECT_EQ(model->cache().next_position(1), 0);
  const Status continued = ForwardTwoTokens(*model, 1, 4);
  ASSERT_FALSE(continued);
  EXPECT_EQ(continued.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(ForwardTwoTokens(*model, 0, 2));
  ASSERT_TRUE(ForwardTwoTokens(*model, 1, 0));
  const Result<Matrix<const float>> again = model->Logits(rows);
  ASSERT_TRUE(again);
  EXPECT_EQ(std::vector<float>(again->Row(0), again->Row(0) + again->cols), expected);
}

}  // namespace
}  // namespace fathom::model
