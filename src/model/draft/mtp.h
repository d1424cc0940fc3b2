// The MTP head (docs/spec/mtp.md 1): one block of ratio 0 after the layers, and the code that makes
// its inputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/sequence_cache.h"
#include "model/block.h"
#include "model/draft/draft_rounds.h"
#include "model/draft/drafter.h"
#include "model/draft/drafters.h"

namespace fathom::model {

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
  Status Propose(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                 const ChooseDrafts& choose) override;

 private:
  // The results of the block that a pass of the head needs.
  enum class Wanted { kKeys, kOutputs };

  void Remember(const BatchView& committed);
  bool SeesKeysInCache(std::int32_t row) const;
  Status RunFirst();
  void ListRequestedRows();
  void CopyInputs();
  Status DraftAgain(const Batch& next, std::span<const std::int32_t> stream_rows);
  template <class FindStream>
  Status Forward(const BatchView& next, Wanted wanted, const FindStream& find_stream);
  template <class FindStream>
  void CopyStreams(const BatchView& next, const FindStream& find_stream);
  Status RunHead(const BatchView& next, Wanted wanted, bool has_inputs);
  Status Project(const Step& step);
  Status StoreKeys(const Step& step);
  Status RunHeadBlock(const Step& step);
  HeadWeights FinalWeights() const;
  Result<ChosenTokens> ChooseFrom(std::span<const std::int32_t> rows, DescribeRows describe);

  ModelState& model_;
  DraftRounds rounds_;
  const DraftRounds::Head head_;
  // The last commit: its rows, and the rows of a.draft_input with the inputs of the block; -1: in
  // another process.
  Batch committed_;
  std::vector<std::int64_t> input_rows_;
  // The pass of the first drafts: some of these rows, and the requests by its rows.
  Batch first_;
  std::vector<std::int32_t> first_rows_;
  std::vector<DraftRequest> requests_;
  std::vector<KeptStream> kept_streams_;  // scratch of Tap
};

}  // namespace fathom::model
