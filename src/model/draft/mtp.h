// The MTP head (docs/spec/mtp.md 1): one block of ratio 0 behind the layers, and what feeds it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/sequence_cache.h"
#include "model/block.h"
#include "model/draft/draft_rounds.h"
#include "model/draft/drafter.h"
#include "model/draft/drafters.h"

namespace fathom {

extern const DrafterKind kMtpDrafter;

struct HeadWeights;

class MtpDrafter : public Drafter {
 public:
  explicit MtpDrafter(ModelState& model);

  int max_depth() const override { return kMtpDrafter.max_depth; }
  void Tap(std::int64_t layer, const BatchView& whole, const Step& step) override;
  Status Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                 StreamSource source) override;
  Status Commit(const Batch& next, std::span<const std::int32_t> stream_rows,
                StreamSource source) override;
  Status Propose(std::span<const DraftRequest> requests, const ChooseDrafts& choose) override;
  Status ProposeTokens(std::span<const DraftRequest> requests,
                       const DraftSampling& sampling) override;

 private:
  Status DraftAgain(const Batch& next, std::span<const std::int32_t> stream_rows);
  template <class FindStream>
  Status Forward(const BatchView& next, const FindStream& find_stream);
  template <class FindStream>
  void CopyStreams(const BatchView& next, const FindStream& find_stream);
  Status RunHead(const Step& step);
  HeadWeights FinalWeights() const;
  Result<Matrix<const float>> Logits(std::span<const std::int32_t> rows);
  // Logits that the host does not see.
  Result<Matrix<const float>> SampledLogits(std::span<const std::int32_t> rows);

  ModelState& model_;
  DraftRounds rounds_;
  const DraftRounds::Head passes_;
  const DraftRounds::Head sampled_passes_;
  std::vector<TokenChoice> choices_;
  std::vector<KeptStream> kept_streams_;  // of one call of Tap
};

}  // namespace fathom
