#include "model/draft/draft_tensors.h"

#include <fmt/format.h>

#include <vector>

#include "model/draft/drafters.h"
#include "model/weight_scope.h"

namespace fathom {

DraftWeights BindDraft(const WeightScope& root, const ModelConfig& config,
                       const DrafterKind& drafter) {
  const auto stage_scope = [&](std::int64_t stage) {
    return root.Inner(fmt::format("{}{}.", drafter.prefix, stage));
  };
  DraftWeights weights;
  for (const int ratio : drafter.sizes(config).ratios) {
    const std::int64_t stage = std::ssize(weights.blocks);
    weights.blocks.push_back(
        BindBlock(stage_scope(stage), config, config.num_hidden_layers + stage, ratio, false));
  }
  for (const DraftTensor& tensor : drafter.tensors(config)) {
    const WeightScope scope = stage_scope(tensor.stage);
    if (tensor.kind == DraftTensor::Kind::kVector) {
      weights.vectors.push_back(
          scope.Vector<Bf16>(tensor.name + ".weight", DType::kBF16, tensor.rows));
      continue;
    }
    if (tensor.is_by_vocabulary) weights.vocabulary_matrices.push_back(weights.matrices.size());
    weights.matrices.push_back(tensor.kind == DraftTensor::Kind::kFp8
                                   ? scope.Fp8Matrix(tensor.name, tensor.rows, tensor.cols)
                                   : scope.Bf16Matrix(tensor.name, tensor.rows, tensor.cols));
  }
  weights.hc_head = stage_scope(std::ssize(weights.blocks) - 1)
                        .HyperConnection("hc_head", config.hidden_size, true);
  return weights;
}

}  // namespace fathom
