#include "model/weights.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "model/draft/drafters.h"
#include "model/model_tensors.h"

namespace fathom::model {
namespace {

// Shared by all scopes of one binding.
struct WeightSource {
  const Checkpoint& checkpoint;
  WeightBinder& binder;
  std::vector<std::unique_ptr<std::byte[]>>& aligned_copies;

  // Returns the tensor's bytes at an address aligned for its elements; nullptr: no tensor.
  const std::byte* Aligned(const TensorView* tensor) {
    if (tensor == nullptr || IsAligned(*tensor)) {
      return tensor == nullptr ? nullptr : tensor->bytes.data();
    }
    const std::size_t size = tensor->bytes.size();
    aligned_copies.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    std::memcpy(aligned_copies.back().get(), tensor->bytes.data(), size);
    return aligned_copies.back().get();
  }

  // Converts integers of 32 bits to integers of 64 bits.
  const std::byte* Widened(const TensorView& tensor) {
    const std::size_t n = tensor.bytes.size() / sizeof(std::uint32_t);
    aligned_copies.push_back(std::make_unique_for_overwrite<std::byte[]>(n * sizeof(std::int64_t)));
    std::byte* const to = aligned_copies.back().get();
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + i * sizeof(bits), sizeof(bits));
      const std::int64_t value =
          tensor.dtype == DType::kI32 ? std::int64_t{static_cast<std::int32_t>(bits)} : bits;
      std::memcpy(to + i * sizeof(value), &value, sizeof(value));
    }
    return to;
  }
};

// Binds the tensors whose names begin with a prefix: a visitor of model_tensors.h. The source must
// outlive this object.
class WeightScope {
 public:
  WeightScope(WeightSource& source, std::string prefix)
      : source_(source), prefix_(std::move(prefix)) {}

  // Returns the prefix.
  const std::string& name() const { return prefix_; }

  WeightScope Inner(std::string_view name) const { return {source_, prefix_ + std::string(name)}; }

  // Binds a tensor as weights of its kind.
  void operator()(const ModelTensor& tensor, Weight& weight) const {
    using Kind = ModelTensor::Kind;
    weight = {.n = tensor.rows, .k = tensor.cols};
    switch (tensor.kind) {
      case Kind::kFp8OrBf16:
        return FindDType(tensor) == DType::kBF16 ? BindBf16(tensor, weight)
                                                 : BindFp8(tensor, weight);
      case Kind::kFp4OrFp8:
        return FindDType(tensor) == DType::kF8E4M3 ? BindFp8(tensor, weight)
                                                   : BindFp4(tensor, weight);
      case Kind::kFp8:
        return BindFp8(tensor, weight);
      default:
        return BindBf16(tensor, weight);
    }
  }

  void operator()(const ModelTensor& tensor, RowParallelWeight& weight) const {
    (*this)(tensor, weight.whole);
    weight.whole.k_parts = RowParallelParts(tensor.cols);
  }

  void operator()(const ModelTensor& tensor, std::span<const Bf16>& vector) const {
    vector = Span(Data<Bf16>(tensor, ".weight", {DType::kBF16}, {tensor.rows}), tensor.rows);
  }

  void operator()(const ModelTensor& tensor, std::span<const float>& vector) const {
    vector = Span(Data<float>(tensor, "", {DType::kF32}, {tensor.rows}), tensor.rows);
  }

  void operator()(const ModelTensor& tensor, Matrix<const float>& table) const {
    const std::int64_t rows = tensor.rows, cols = tensor.cols;
    table = {Data<float>(tensor, "", {DType::kF32}, {rows, cols}), rows, cols};
  }

  void operator()(const ModelTensor& tensor, Matrix<const Bf16>& table) const {
    const std::int64_t rows = tensor.rows, cols = tensor.cols;
    table = {Data<Bf16>(tensor, ".weight", {DType::kBF16}, {rows, cols}), rows, cols};
  }

  // The ids are I64 in the published files; other writers use 32 bits.
  void operator()(const ModelTensor& tensor, Matrix<const std::int64_t>& ids) const {
    const std::int64_t rows = tensor.rows, cols = tensor.cols;
    const TensorView* found =
        Bind(tensor, "", {DType::kI64, DType::kI32, DType::kU32}, {rows, cols});
    const std::byte* data = found == nullptr || found->dtype == DType::kI64
                                ? source_.Aligned(found)
                                : source_.Widened(*found);
    ids = {reinterpret_cast<const std::int64_t*>(data), rows, cols};
  }

  void operator()(const ModelTensor& tensor, HcWeights& gates) const {
    const std::int64_t rows = tensor.rows;
    gates = {.fn = Data<float>(tensor, "_fn", {DType::kF32}, {rows, tensor.cols}),
             .base = Data<float>(tensor, "_base", {DType::kF32}, {rows}),
             .scale = Data<float>(tensor, "_scale", {DType::kF32}, {tensor.GateScales()})};
  }

 private:
  std::string FullName(const ModelTensor& tensor, std::string_view suffix) const {
    return fmt::format("{}{}{}", prefix_, tensor.name, suffix);
  }

  const TensorView* Bind(const ModelTensor& tensor, std::string_view suffix,
                         std::vector<DType> dtypes, std::vector<std::int64_t> shape) const {
    return source_.binder.Bind(FullName(tensor, suffix), std::move(dtypes), std::move(shape));
  }

  template <class T = std::byte>
  const T* Data(const ModelTensor& tensor, std::string_view suffix, std::vector<DType> dtypes,
                std::vector<std::int64_t> shape) const {
    return reinterpret_cast<const T*>(
        source_.Aligned(Bind(tensor, suffix, std::move(dtypes), std::move(shape))));
  }

  template <class T>
  static std::span<const T> Span(const T* data, std::int64_t size) {
    return {data, data == nullptr ? 0 : static_cast<std::size_t>(size)};
  }

  std::optional<DType> FindDType(const ModelTensor& tensor) const {
    const TensorView* found = source_.checkpoint.Find(FullName(tensor, ".weight"));
    return found == nullptr ? std::nullopt : std::optional(found->dtype);
  }

  void BindBf16(const ModelTensor& tensor, Weight& weight) const {
    weight.data = Data(tensor, ".weight", {DType::kBF16}, {weight.n, weight.k});
  }

  // E4M3 with one scale per 128 x 128, stored as E8M0, which some writers call U8, or F32.
  void BindFp8(const ModelTensor& tensor, Weight& weight) const {
    weight.format = WeightFormat::kFp8;
    weight.data = Data(tensor, ".weight", {DType::kF8E4M3}, {weight.n, weight.k});
    const TensorView* scales = Bind(tensor, ".scale", {DType::kF8E8M0, DType::kU8, DType::kF32},
                                    {weight.ScaleRows(), weight.ScaleColumns()});
    weight.scales = source_.Aligned(scales);
    if (scales != nullptr && scales->dtype == DType::kF32) {
      weight.scale_format = ScaleFormat::kF32;
    }
  }

  // Bytes of FP4 are I8 in the published files; others write U8, or F4 with the number of values.
  void BindFp4(const ModelTensor& tensor, Weight& weight) const {
    weight.format = WeightFormat::kFp4;
    const TensorForm forms[] = {{{DType::kI8, DType::kU8}, {weight.n, weight.k / 2}},
                                {{DType::kF4}, {weight.n, weight.k}}};
    weight.data = source_.Aligned(source_.binder.Bind(FullName(tensor, ".weight"), forms));
    weight.scales = Data(tensor, ".scale", {DType::kF8E8M0, DType::kU8},
                         {weight.ScaleRows(), weight.ScaleColumns()});
  }

  WeightSource& source_;
  std::string prefix_;
};

// Binds the block whose tensors the scope names.
BlockWeights BindBlock(const WeightScope& scope, const ModelConfig& config, std::int64_t index,
                       int ratio) {
  BlockWeights block = {.index = index, .ratio = ratio};
  block.ffn.name = scope.Inner("ffn").name();
  VisitBlock(block, config, scope);
  block.ffn.experts.resize(static_cast<std::size_t>(config.n_routed_experts));
  for (std::int64_t e = 0; e < config.n_routed_experts; ++e) {
    VisitExpert(block.ffn.experts[static_cast<std::size_t>(e)], config,
                scope.Inner(ExpertPrefix(e)));
  }
  return block;
}

// Binds the blocks of a draft head, the tensors of its table in their order, and the gates before
// the head of its last stage.
DraftWeights BindDraft(const WeightScope& root, const ModelConfig& config,
                       const DrafterKind& drafter) {
  const auto stage_scope = [&](std::int64_t stage) {
    return root.Inner(fmt::format("{}{}.", drafter.prefix, stage));
  };
  DraftWeights weights;
  for (const int ratio : drafter.sizes(config).ratios) {
    const std::int64_t stage = std::ssize(weights.blocks);
    weights.blocks.push_back(
        BindBlock(stage_scope(stage), config, config.num_hidden_layers + stage, ratio));
  }
  for (const ModelTensor& tensor : drafter.tensors(config)) {
    const WeightScope scope = stage_scope(tensor.stage);
    if (tensor.kind == ModelTensor::Kind::kVector) {
      scope(tensor, weights.vectors.emplace_back());
      continue;
    }
    if (tensor.shard == ModelTensor::Shard::kVocabulary) {
      weights.vocabulary_matrices.push_back(weights.matrices.size());
    }
    scope(tensor, weights.matrices.emplace_back());
  }
  stage_scope(std::ssize(weights.blocks) - 1)(StreamHead(config), weights.hc_head);
  return weights;
}

}  // namespace

Weight WithoutData(Weight weight) {
  weight.data = nullptr;
  weight.scales = nullptr;
  return weight;
}

ExpertWeights WithoutData(const ExpertWeights& expert) {
  return {WithoutData(expert.w1), WithoutData(expert.w2), WithoutData(expert.w3)};
}

ModelWeights BindWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                         const DrafterKind* drafter, WeightBinder& binder) {
  ModelWeights weights;
  weights.config = config;
  WeightSource source{checkpoint, binder, weights.aligned_copies};
  const WeightScope scope(source, "");
  VisitOutside(weights, config, scope);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    weights.layers.push_back(BindBlock(scope.Inner(fmt::format("layers.{}.", i)), config, i,
                                       config.compress_ratios[static_cast<std::size_t>(i)]));
  }
  if (drafter != nullptr) {
    weights.draft = BindDraft(scope, config, *drafter);
  }
  return weights;
}

Result<ModelWeights> BindWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                                 const DrafterKind* drafter) {
  WeightBinder binder(checkpoint);
  ModelWeights weights = BindWeights(checkpoint, config, drafter, binder);
  if (Status bound = binder.Finish(); !bound) return Unexpected(bound.error());
  return weights;
}

}  // namespace fathom::model
