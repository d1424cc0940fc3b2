#include "measure/slice/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/weight_format.h"
#include "model/draft/drafters.h"
#include "model/model_tensors.h"

namespace fathom::measure {
namespace {

// Weights of 1 / sqrt(inputs) keep the root mean square of the inputs.
double Preserving(std::int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }

double DeviationOfFloats(ModelTensor::Component component) {
  switch (component) {
    case ModelTensor::Component::kRouter:
      return 0.01;  // far below the spread of the scores, so that no expert is preferred
    case ModelTensor::Component::kOther:
      return 1;  // sinks
    default:
      return 0.5;  // scores of positions in a compressor
  }
}

// Collects the tensors of one part, by their names without its prefix.
class Part {
 public:
  Part(const ModelConfig& config, std::string prefix)
      : config_(config), prefix_(std::move(prefix)) {}

  void Add(const ModelTensor& tensor) {
    using Kind = ModelTensor::Kind;
    const std::int64_t rows = tensor.rows;
    const std::int64_t cols = tensor.cols;
    switch (tensor.kind) {
      case Kind::kVector:  // values near 1, like trained norms
        return AddValues(tensor.name + ".weight", DType::kBF16, {rows}, 1, 0.1);
      case Kind::kFloats:
        return AddValues(tensor.name, DType::kF32,
                         cols == 1 ? std::vector{rows} : std::vector{rows, cols}, 0,
                         DeviationOfFloats(tensor.component));
      case Kind::kGates:  // half open on average, and dependent equally on streams and base
        AddValues(tensor.name + "_fn", DType::kF32, {rows, cols}, 0, Preserving(cols));
        AddValues(tensor.name + "_base", DType::kF32, {rows}, 0, 0.5);
        return AddValues(tensor.name + "_scale", DType::kF32, {tensor.GateScales()}, 0.5, 0.05);
      case Kind::kTable:  // streams begin with a deviation of 1
        return AddValues(tensor.name + ".weight", DType::kBF16, {rows, cols}, 0, 1);
      case Kind::kIds:
        return tensors_.push_back({.name = prefix_ + tensor.name,
                                   .dtype = DType::kI64,
                                   .shape = {rows, cols},
                                   .n_experts = config_.n_routed_experts});
      case Kind::kBf16: {
        // Logits have the spread of a trained model's logits.
        const double spread = tensor.component == ModelTensor::Component::kHead ? 4 : 1;
        return AddValues(tensor.name + ".weight", DType::kBF16, {rows, cols}, 0,
                         spread / std::sqrt(static_cast<double>(cols)));
      }
      case Kind::kFp8:
      case Kind::kFp8OrBf16:
        AddValues(tensor.name + ".weight", DType::kF8E4M3, {rows, cols}, 0, kE4m3Deviation);
        return AddValues(tensor.name + ".scale", DType::kF8E8M0,
                         {DivideUp(rows, kFp8Block), DivideUp(cols, kFp8Block)}, 0,
                         Preserving(cols) / kE4m3Deviation);
      case Kind::kFp4OrFp8:
        AddValues(tensor.name + ".weight", DType::kI8, {rows, cols / 2}, 0, kE2m1Deviation);
        return AddValues(tensor.name + ".scale", DType::kF8E8M0, {rows, cols / kFp4Block}, 0,
                         Preserving(cols) / kE2m1Deviation);
    }
  }

  void AddBlock(std::int64_t index, int ratio) {
    for (const ModelTensor& tensor : BlockTensors(config_, index, ratio)) Add(tensor);
    const std::vector<ModelTensor> of_expert = ExpertTensors(config_);
    for (std::int64_t e = 0; e < config_.n_routed_experts; ++e) {
      for (ModelTensor tensor : of_expert) {
        tensor.name = ExpertPrefix(e) + tensor.name;
        Add(tensor);
      }
    }
  }

  std::vector<SliceTensor> Take() {
    std::sort(tensors_.begin(), tensors_.end(), [](const SliceTensor& a, const SliceTensor& b) {
      return std::tuple(b.dtype, std::string_view(a.name)) <
             std::tuple(a.dtype, std::string_view(b.name));
    });
    return std::move(tensors_);
  }

 private:
  void AddValues(std::string_view name, DType dtype, std::vector<std::int64_t> shape, double mean,
                 double deviation) {
    tensors_.push_back({.name = fmt::format("{}{}", prefix_, name),
                        .dtype = dtype,
                        .shape = std::move(shape),
                        .mean = mean,
                        .deviation = deviation});
  }

  const ModelConfig& config_;
  const std::string prefix_;
  std::vector<SliceTensor> tensors_;
};

// Appends a part for each stage of the draft head.
void AddDraftParts(const ModelConfig& config, const DrafterKind& drafter,
                   std::vector<std::vector<SliceTensor>>& parts) {
  const std::vector<int> ratios = drafter.sizes(config).ratios;
  const std::vector<ModelTensor> tensors = drafter.tensors(config);
  for (std::int64_t stage = 0; stage < std::ssize(ratios); ++stage) {
    Part part(config, fmt::format("{}{}.", drafter.prefix, stage));
    part.AddBlock(config.num_hidden_layers + stage, ratios[static_cast<std::size_t>(stage)]);
    for (const ModelTensor& tensor : tensors) {
      if (tensor.stage == stage) part.Add(tensor);
    }
    if (stage + 1 == std::ssize(ratios)) part.Add(StreamHead(config));
    parts.push_back(part.Take());
  }
}

}  // namespace

std::int64_t ByteCount(const SliceTensor& tensor) {
  const std::optional<std::int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
  Check(bytes.has_value(), "a tensor of a checked configuration has a size");
  return *bytes;
}

std::vector<std::vector<SliceTensor>> SliceParts(const ModelConfig& config) {
  std::vector<std::vector<SliceTensor>> parts;
  Part embedding(config, "");
  Part head(config, "");
  for (const ModelTensor& tensor : OutsideTensors(config)) {
    (tensor.kind == ModelTensor::Kind::kTable ? embedding : head).Add(tensor);
  }
  parts.push_back(embedding.Take());
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    Part layer(config, fmt::format("layers.{}.", i));
    layer.AddBlock(i, config.compress_ratios[static_cast<std::size_t>(i)]);
    parts.push_back(layer.Take());
  }
  parts.push_back(head.Take());
  if (const DrafterKind* drafter = AnnouncedDrafter(config)) {
    AddDraftParts(config, *drafter, parts);
  }
  return parts;
}

}  // namespace fathom::measure
