#include "checkpoint/expert_formats.h"

#include <fmt/format.h>

#include <string_view>

#include "base/parse_text.h"

namespace fathom::checkpoint {
namespace {

// Returns true for layers.L.ffn.experts.E.w1.weight.
bool IsExpertWeight(std::string_view name) {
  return TakePrefix(name, "layers.") && TakeNumber<unsigned>(name) &&
         TakePrefix(name, ".ffn.experts.") && TakeNumber<unsigned>(name) && name == ".w1.weight";
}

}  // namespace

ExpertFormats FindExpertFormats(const Checkpoint& checkpoint) {
  ExpertFormats formats;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if (!IsExpertWeight(tensor.name)) continue;
    const DType dtype = tensor.view.dtype;
    const bool is_fp4 = dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kF4;
    const bool is_fp8 = dtype == DType::kF8E4M3;
    formats.n_fp4 += is_fp4;
    formats.n_fp8 += is_fp8;
    formats.n_other += !is_fp4 && !is_fp8;
  }
  return formats;
}

std::optional<std::string> ExpertFormatWarning(const ModelConfig& config,
                                               const ExpertFormats& formats) {
  const ExpertDType said = config.expert_dtype.value_or(ExpertDType::kFp4);
  const std::int64_t n_contradicting = said == ExpertDType::kFp4 ? formats.n_fp8 : formats.n_fp4;
  if (n_contradicting == 0) return std::nullopt;
  const std::string_view found =
      Name(said == ExpertDType::kFp4 ? ExpertDType::kFp8 : ExpertDType::kFp4);
  return fmt::format(
      "expert_dtype is {}, but {} of {} routed experts are stored as {}: using what the "
      "tensors are",
      config.expert_dtype ? fmt::format("\"{}\"", Name(said))
                          : std::string("missing (which means \"fp4\")"),
      n_contradicting, formats.n_fp4 + formats.n_fp8 + formats.n_other, found);
}

}  // namespace fathom::checkpoint
