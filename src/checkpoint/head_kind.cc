#include "checkpoint/head_kind.h"

#include <set>

#include "base/parse_text.h"
#include "checkpoint/weight_binder.h"

namespace fathom {
namespace {

// layers.L.ffn.experts.E.w1.weight
bool IsExpertWeight(std::string_view name) {
  return TakePrefix(name, "layers.") && TakeNumber<unsigned>(name) &&
         TakePrefix(name, ".ffn.experts.") && TakeNumber<unsigned>(name) && name == ".w1.weight";
}

}  // namespace

std::string_view Name(HeadKind kind) {
  switch (kind) {
    case HeadKind::kMtp:
      return "MTP";
    case HeadKind::kDSpark:
      return "DSpark";
    case HeadKind::kNone:
      break;
  }
  return "none";
}

Result<DraftHead> FindDraftHead(const Checkpoint& checkpoint) {
  std::set<unsigned> stages;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    std::string_view name = tensor.name;
    if (!TakePrefix(name, "mtp.") || IsUnusedDraftCopy(tensor.name)) continue;
    if (const std::optional<unsigned> stage = TakeNumber<unsigned>(name)) {
      stages.insert(*stage);
    }
  }
  const bool is_mtp = checkpoint.Find("mtp.0.e_proj.weight") != nullptr;
  const bool is_dspark = checkpoint.Find("mtp.0.main_proj.weight") != nullptr;
  const std::string where = checkpoint.path().string();
  if (is_mtp && is_dspark) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected one draft head, found tensors of two: mtp.0.e_proj.weight (MTP) "
                     "and mtp.0.main_proj.weight (DSpark)",
                     where);
  }
  if (stages.empty()) return DraftHead{};
  if (!is_mtp && !is_dspark) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: there are mtp.* tensors, but neither mtp.0.e_proj.weight (MTP) nor "
                     "mtp.0.main_proj.weight (DSpark)",
                     where);
  }
  const std::size_t n_stages = stages.size();
  if (*stages.rbegin() != n_stages - 1) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected {} draft stages mtp.0 to mtp.{}, found mtp.{}", where, n_stages,
                     n_stages - 1, *stages.rbegin());
  }
  return DraftHead{is_mtp ? HeadKind::kMtp : HeadKind::kDSpark, static_cast<int>(n_stages)};
}

Status AdoptHead(const DraftHead& head, ModelConfig& config) {
  if (head.kind != HeadKind::kDSpark) return {};
  if (!config.dspark) {
    return MakeError(ErrorCode::kInvalidData,
                     "config.json: dspark_block_size: expected the numbers of the DSpark drafter "
                     "that the tensors have (mtp.0.main_proj.weight), found none");
  }
  config.dspark->n_stages = head.n_stages;
  return {};
}

ExpertFormats FindExpertFormats(const Checkpoint& checkpoint) {
  ExpertFormats formats;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if (!IsExpertWeight(tensor.name)) continue;
    formats.n_fp4 += tensor.view.dtype == DType::kI8;
    formats.n_fp8 += tensor.view.dtype == DType::kF8E4M3;
    formats.n_other += tensor.view.dtype != DType::kI8 && tensor.view.dtype != DType::kF8E4M3;
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

}  // namespace fathom
