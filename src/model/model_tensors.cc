#include "model/model_tensors.h"

#include <fmt/format.h>

namespace fathom::model {
namespace {

// Visits and collects tensors, whose weights do not matter.
struct TensorList {
  std::vector<ModelTensor>& tensors;

  template <class Weights>
  void operator()(const ModelTensor& tensor, const Weights&) const {
    tensors.push_back(tensor);
  }
};

}  // namespace

std::vector<ModelTensor> OutsideTensors(const ModelConfig& config) {
  std::vector<ModelTensor> tensors;
  const ModelWeights none{};
  VisitOutside(none, config, TensorList{tensors});
  return tensors;
}

std::vector<ModelTensor> BlockTensors(const ModelConfig& config, std::int64_t index, int ratio) {
  std::vector<ModelTensor> tensors;
  const BlockWeights block = {.index = index, .ratio = ratio};
  VisitBlock(block, config, TensorList{tensors});
  return tensors;
}

std::vector<ModelTensor> ExpertTensors(const ModelConfig& config) {
  std::vector<ModelTensor> tensors;
  const ExpertWeights none;
  VisitExpert(none, config, TensorList{tensors});
  return tensors;
}

std::string ExpertPrefix(std::int64_t expert) { return fmt::format("ffn.experts.{}.", expert); }

}  // namespace fathom::model
