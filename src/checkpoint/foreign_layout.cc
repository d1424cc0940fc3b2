#include "checkpoint/foreign_layout.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace fathom::checkpoint {
namespace {

struct ForeignLayout {
  bool (*has)(std::string_view tensor);
  std::string_view sentence;
};

// The first match is named: converted names occur with any of the formats below.
constexpr ForeignLayout kLayouts[] = {
    {[](std::string_view tensor) { return tensor.ends_with(".weight_packed"); },
     "quantized by compressed-tensors (weight_packed)"},
    {[](std::string_view tensor) {
       return tensor.ends_with(".weight_scale_2") || tensor.ends_with(".input_scale");
     },
     "quantized by ModelOpt to NVFP4 (weight_scale_2)"},
    {[](std::string_view tensor) {
       return tensor.ends_with(".qweight") || tensor.ends_with(".qzeros") ||
              tensor.ends_with(".tq_packed");
     },
     "packed by another quantizer (qweight)"},
    {[](std::string_view tensor) {
       return tensor.find(".self_attn.") != std::string_view::npos ||
              tensor.find(".mlp.") != std::string_view::npos;
     },
     "named as by transformers (self_attn, mlp)"},
};

// Returns whether all experts are unquantized.
bool HasWideExperts(std::span<const Checkpoint::Tensor> tensors) {
  bool has_experts = false;
  for (const Checkpoint::Tensor& tensor : tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) continue;
    if (tensor.view.dtype != DType::kBF16) return false;
    has_experts = true;
  }
  return has_experts;
}

}  // namespace

std::optional<std::string> NameForeignLayout(const Checkpoint& checkpoint) {
  const auto tell = [&](std::string_view layout) {
    return fmt::format(
        "the tensors of {} are {}: take the published checkpoint, whose tensors "
        "are named layers.N.attn, in FP8, and its experts in FP4 or FP8",
        checkpoint.path().string(), layout);
  };
  const std::span<const Checkpoint::Tensor> tensors = checkpoint.tensors();
  for (const ForeignLayout& layout : kLayouts) {
    if (std::ranges::any_of(tensors, layout.has, &Checkpoint::Tensor::name)) {
      return tell(layout.sentence);
    }
  }
  if (HasWideExperts(tensors)) return tell("in BF16, without scales");
  return std::nullopt;
}

}  // namespace fathom::checkpoint
