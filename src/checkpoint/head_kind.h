// The draft head (docs/spec/mtp.md 0) and the format of the routed experts (docs/spec/checkpoint.md
// 4), as the tensors of a checkpoint show them; the configuration may be silent or wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"

namespace fathom {

enum class HeadKind {
  kNone,
  kMtp,     // multi-token prediction: mtp.0.e_proj.weight
  kDSpark,  // block drafter of several stages: mtp.0.main_proj.weight
};
// "none", "MTP", "DSpark"
std::string_view Name(HeadKind kind);

struct DraftHead {
  HeadKind kind = HeadKind::kNone;
  int n_stages = 0;  // mtp.0 to mtp.(n_stages - 1)
};

// Returns true if a tensor of this name belongs to a draft head of any kind.
inline bool IsDraftTensor(std::string_view name) { return name.starts_with("mtp."); }

// Errors: mtp.* tensors that are of neither kind or of both, or stages with a gap. Copies of the
// embedding and the head alone are no draft head.
Result<DraftHead> FindDraftHead(const Checkpoint& checkpoint);

// Sets what the tensors say of the head: the stages of a DSpark drafter. Error (kInvalidData): the
// configuration has no numbers of such a drafter.
Status AdoptHead(const DraftHead& head, ModelConfig& config);

// The number of routed experts of the main layers in each format, by the dtype of w1.weight.
struct ExpertFormats {
  std::int64_t n_fp4 = 0;    // I8
  std::int64_t n_fp8 = 0;    // F8_E4M3
  std::int64_t n_other = 0;  // no format of this model
};
ExpertFormats FindExpertFormats(const Checkpoint& checkpoint);

// Returns a warning if the configuration contradicts the tensors, which are right. nullopt: they
// agree, or there are no experts.
std::optional<std::string> ExpertFormatWarning(const ModelConfig& config,
                                               const ExpertFormats& formats);

}  // namespace fathom
